/**
 * Queries that are built once and run often: the builder's work is done at start, a run only swaps the parameters.
 *
 * Invariant: every parameter of the built query is traced to one named argument; a query where that is not so does not
 * come into being.
 */

import type { Compilable, CompiledQuery, Kysely, QueryResult } from "kysely";
import type { Schema } from "./schema.ts";

type Arguments = Readonly<Record<string, string | number | null>>;

export type Prepared<Args extends Arguments, Row> = {
  readonly sql: string;
  run(db: Kysely<Schema>, args: Args): Promise<QueryResult<Row>>;
};

/** Kept variants of a query whose shape varies; beyond, a variant is built each time. */
const VARIANTS_MAX = 128;

/**
 * Builds a query from sample arguments and keeps its text. `samples` must differ from each other and from every constant
 * in the query, so that the place of each can be found again.
 */
export function prepare<Args extends Arguments, Row>(
  samples: Args,
  build: (args: Args) => Compilable<Row>,
): Prepared<Args, Row> {
  const compiled: CompiledQuery<Row> = build(samples).compile();
  const names = compiled.parameters.map((value) => nameOf(value, samples, compiled.sql));
  return {
    sql: compiled.sql,
    run: (db, args) => db.executeQuery({ ...compiled, parameters: names.map((name) => args[name]) }),
  };
}

/** Queries of one family, each variant built when it is first asked for. */
export function prepareVariants<Args extends Arguments, Row>(
  build: (variant: string) => Prepared<Args, Row>,
): (variant: string) => Prepared<Args, Row> {
  const built = new Map<string, Prepared<Args, Row>>();
  return (variant) => {
    const kept = built.get(variant);
    if (kept !== undefined) return kept;
    const query = build(variant);
    if (built.size < VARIANTS_MAX) built.set(variant, query);
    return query;
  };
}

/** Values of a list as named arguments, for `prepare`. */
export function numbered(values: readonly string[]): Record<string, string> {
  return Object.fromEntries(values.map((value, index) => [`item ${index}`, value]));
}

function nameOf(value: unknown, samples: Arguments, sql: string): string {
  const names = Object.keys(samples).filter((name) => samples[name] === value);
  const [name] = names;
  if (name === undefined || names.length > 1) {
    throw new Error(`invariant broken: parameter ${String(value)} of a prepared query has no name of its own: ${sql}`);
  }
  return name;
}
