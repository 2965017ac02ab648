/**
 * What is wrong with a setting, and where a setting came from, in words for an operator.
 *
 * Invariant: every problem names the key, the place it was written, and what is expected there.
 * Invariant: values are not repeated, as someone may have put a secret into the wrong place.
 */

import { z } from "zod";
import { LATER_DRIVERS } from "./entry-schemas.ts";
import { withoutWrappers } from "./schema.ts";

export type SettingOrigin =
  | { readonly kind: "flag"; readonly name: string }
  /** `file`: the `--env-file` that set it, or null for the process's own environment. */
  | { readonly kind: "environment"; readonly name: string; readonly file: string | null }
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "default" };

export type ConfigProblem = {
  /** `server.port`, or the name of what is unknown. */
  readonly key: string;
  readonly origin: SettingOrigin;
  /** `expected a whole number from 0 to 65535`, `unknown; did you mean …?` */
  readonly message: string;
};

export function describeOrigin(origin: SettingOrigin): string {
  switch (origin.kind) {
    case "flag":
      return origin.name;
    case "environment":
      return origin.file === null ? origin.name : `${origin.name} in ${origin.file}`;
    case "file":
      return origin.path;
    case "default":
      return "default";
  }
}

/** `server.port (--port): expected a whole number from 0 to 65535` */
export function describeProblem(problem: ConfigProblem): string {
  return `${problem.key} (${describeOrigin(problem.origin)}): ${problem.message}`;
}

/** Problems of one rejected value, found by its schema. `key` is the setting's; keys below it are appended. */
export function problemsOf(
  key: string,
  schema: z.ZodType,
  error: z.ZodError,
  origin: SettingOrigin,
): readonly ConfigProblem[] {
  return error.issues.flatMap((issue) => {
    const path = issue.path.map(String);
    const at = [key, ...path].join(".");
    if (issue.code === "unrecognized_keys") {
      const known = fieldsAt(schema, path);
      return issue.keys.map((unknown) => ({ key: `${at}.${unknown}`, origin, message: unknownKey(unknown, known) }));
    }
    return [{ key: at, origin, message: messageOf(issue, schema, path) }];
  });
}

/** `unknown; did you mean "port"?` */
export function unknownKey(unknown: string, known: readonly string[]): string {
  const close = closest(unknown, known);
  return close === null ? "unknown; remove it" : `unknown; did you mean ${close}?`;
}

function messageOf(issue: z.core.$ZodIssue, schema: z.ZodType, path: readonly string[]): string {
  if (issue.code === "custom") return issue.message;
  if (issue.code === "invalid_key")
    return "expected a name of letters, digits, dots, dashes and underscores, at most 64";
  const at = schemaAt(schema, path);
  if (path.at(-1) === "driver" && at.schema instanceof z.ZodEnum) {
    const available = at.schema.options.join(", ");
    return `expected one of ${available}; ${LATER_DRIVERS.join(", ")} are not available in this version`;
  }
  return `expected ${expectationOf(at.schema)}`;
}

/** What a schema accepts, in words. */
export function expectationOf(schema: z.ZodType): string {
  const inner = withoutWrappers(schema);
  const written = inner.meta()?.["expected"];
  if (typeof written === "string") return written;
  if (inner instanceof z.ZodNumber)
    return `a whole number from ${inner.minValue ?? 0} to ${inner.maxValue ?? Number.MAX_SAFE_INTEGER}`;
  if (inner instanceof z.ZodBoolean) return "true or false";
  if (inner instanceof z.ZodEnum) return `one of ${inner.options.join(", ")}`;
  if (inner instanceof z.ZodURL) return "a URL";
  if (inner instanceof z.ZodObject) return "an object";
  return inner instanceof z.ZodArray ? "a list" : "text";
}

type Found = { readonly schema: z.ZodType };

/** The schema at a path, or the nearest one above it that can be named. */
function schemaAt(schema: z.ZodType, path: readonly string[]): Found {
  const [step, ...rest] = path;
  if (step === undefined) return { schema };
  const inner = withoutWrappers(schema);
  const below: unknown = inner instanceof z.ZodObject ? inner.shape[step] : elementOf(inner);
  return below instanceof z.ZodType ? schemaAt(below, rest) : { schema };
}

function elementOf(schema: z.ZodType): unknown {
  if (schema instanceof z.ZodArray) return schema.element;
  return schema instanceof z.ZodRecord ? schema.valueType : undefined;
}

/** Names of the fields of the object at a path. */
function fieldsAt(schema: z.ZodType, path: readonly string[]): readonly string[] {
  const at = withoutWrappers(schemaAt(schema, path).schema);
  return at instanceof z.ZodObject ? Object.keys(at.shape) : [];
}

/** The known word that is nearest to `word` by edits, if near enough to be meant: a third of its letters. */
export function closest(word: string, known: readonly string[]): string | null {
  // Nobody misspells a name at such length, and comparing takes a time that grows with it.
  if (word.length > WORD_CHARACTERS_MAX) return null;
  const lower = word.toLowerCase();
  const ranked = known
    .map((candidate) => ({ candidate, distance: editsBetween(lower, candidate.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const [best] = ranked;
  return best !== undefined && best.distance <= Math.max(1, Math.floor(word.length / 3)) ? best.candidate : null;
}

const WORD_CHARACTERS_MAX = 200;

/** Levenshtein distance where swapping two neighbours counts as one edit. Words of one line only. */
function editsBetween(left: string, right: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row++) {
    const current: number[] = [row];
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1];
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      current[column] = Math.min(
        (current[column - 1] ?? 0) + 1,
        (last[column] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
        swapped ? (beforeLast[column - 2] ?? Number.POSITIVE_INFINITY) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    beforeLast = last;
    last = current;
  }
  return last.at(-1) ?? 0;
}
