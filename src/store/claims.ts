/**
 * Who holds the right to write at, above or below a path (P10).
 *
 * Invariant: collisions are found by an index on paths: the few paths above a path by name, those below it as a range.
 * Absent on purpose: resolving links. Paths come in as real paths with "/".
 */

import { type Kysely, sql } from "kysely";
import type { ClaimHolder } from "../core/command.ts";
import { nodeIdOf } from "../core/ids.ts";
import { storedTaskId, storedThreadId } from "./codec.ts";
import { numbered, prepare, prepareVariants } from "./prepared.ts";
import type { Schema } from "./schema.ts";

export type ClaimQueries = ReturnType<typeof createClaimQueries>;

export function createClaimQueries(db: Kysely<Schema>) {
  const oldest = () =>
    db
      .selectFrom("claims")
      .innerJoin("tasks", "tasks.task_id", "claims.task_id")
      .select(["claims.task_id", "claims.caller", "claims.since_ms", "tasks.thread_id"])
      .orderBy("claims.since_ms")
      .orderBy("claims.task_id")
      .limit(sql.lit(1));
  return {
    above: prepareVariants((count) => {
      const paths = Array.from({ length: Number(count) }, (_, index) => `path ${index}`);
      return prepare(numbered(paths), () => oldest().where("claims.path", "in", paths));
    }),
    below: prepare({ from: "a", to: "b" }, ({ from, to }) =>
      oldest().where("claims.path", ">=", from).where("claims.path", "<", to),
    ),
  };
}

/** The oldest claim that overlaps a path, as `caller` may know it (P16: another caller's holder has no handle). */
export async function findHolder(
  queries: ClaimQueries,
  on: Kysely<Schema>,
  wish: { readonly path: string; readonly caller: string },
): Promise<ClaimHolder | null> {
  const paths = atAndAbove(wish.path);
  const above = await queries.above(String(paths.length)).run(on, numbered(paths));
  const below = await queries.below.run(on, rangeBelow(wish.path));
  return holderOf([...above.rows, ...below.rows], wish.caller);
}

/** `path` and every directory above it. */
function atAndAbove(path: string): readonly string[] {
  const paths = new Set([path, "/"]);
  for (let end = path.indexOf("/", 1); end > 0; end = path.indexOf("/", end + 1)) paths.add(path.slice(0, end));
  return [...paths];
}

/** The paths below `path` as a range of text: "/" is followed by "0" in the order of bytes, so "/ab" is not below "/a". */
function rangeBelow(path: string): { readonly from: string; readonly to: string } {
  const bare = path.endsWith("/") ? path.slice(0, -1) : path;
  return { from: `${bare}/`, to: `${bare}0` };
}

type ClaimRow = {
  readonly task_id: string;
  readonly caller: string;
  readonly since_ms: number;
  readonly thread_id: string;
};

function holderOf(claims: ClaimRow[], caller: string): ClaimHolder | null {
  const [claim] = claims.sort((one, other) => one.since_ms - other.since_ms || (one.task_id < other.task_id ? -1 : 1));
  if (claim === undefined) return null;
  if (claim.caller !== caller) return { mine: false, sinceMs: claim.since_ms };
  const taskId = storedTaskId(claim.task_id);
  const handle = { taskId, childThreadId: storedThreadId(claim.thread_id), nodeId: nodeIdOf(taskId) };
  return { mine: true, handle, sinceMs: claim.since_ms };
}
