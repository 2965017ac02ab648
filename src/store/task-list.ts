/**
 * Queries whose shape depends on what is asked: lists by filter, tasks by id, claims above a path.
 *
 * Invariant: a list's first page is found by an index for every single filter, with and without a caller.
 */

import { type Kysely, sql } from "kysely";
import type { ClaimHolder } from "../core/command.ts";
import { nodeIdOf, type TaskId } from "../core/ids.ts";
import type { TaskQuery } from "../ports/store.ts";
import { storedTaskId, storedThreadId } from "./codec.ts";
import { type Prepared, prepare } from "./prepared.ts";
import type { Schema } from "./schema.ts";
import { claimHolders } from "./statements.ts";

/** A page is cut to this, whatever is asked. */
export const PAGE_MAX = 500;
/** Sorts after every text that begins with the prefix it is put behind. */
const LAST = "\u{10FFFF}";

/** Newest first: ids are ordered by time. Asks for one row more than the page, to know whether there are more. */
export function listQuery(db: Kysely<Schema>, query: TaskQuery) {
  let rows = db.selectFrom("tasks").select("snapshot");
  if (query.caller !== null) rows = rows.where("caller", "=", query.caller);
  // Open tasks are among those to look at, which have an index across callers.
  if (query.open) rows = rows.where("is_open", "=", sql.lit(1)).where("needs_look", "=", sql.lit(1));
  if (query.unread) rows = rows.where("is_unread", "=", sql.lit(1));
  if (query.conversation !== null) rows = rows.where("conversation", "=", query.conversation);
  if (query.status !== null) rows = rows.where("status", "=", query.status);
  if (query.parentTaskId !== null) rows = rows.where("parent_id", "=", query.parentTaskId);
  if (query.idPrefix !== null && query.idPrefix !== "") {
    rows = rows.where("task_id", ">=", query.idPrefix).where("task_id", "<", `${query.idPrefix}${LAST}`);
  }
  if (query.before !== null) rows = rows.where("task_id", "<", query.before);
  return rows.orderBy("task_id", "desc").limit(pageSize(query.limit) + 1);
}

export function pageSize(limit: number): number {
  return Math.max(1, Math.min(limit, PAGE_MAX));
}

export type TasksByIds = (
  db: Kysely<Schema>,
  taskIds: readonly TaskId[],
  caller: string | null,
) => Promise<readonly { readonly task_id: string; readonly snapshot: string }[]>;

/** Tasks by id in one query; the text for each number of ids is built once. */
export function createTasksByIds(db: Kysely<Schema>): TasksByIds {
  type Args = Readonly<Record<string, string>>;
  const texts = new Map<string, Prepared<Args, { task_id: string; snapshot: string }>>();
  const build = (count: number, ofCaller: boolean) =>
    prepare(
      { ...numbered(Array.from({ length: count }, (_, index) => `id ${index}`)), caller: "caller" },
      (args: Args) => {
        const { caller = "", ...ids } = args;
        const rows = db.selectFrom("tasks").select(["task_id", "snapshot"]).where("task_id", "in", Object.values(ids));
        return ofCaller ? rows.where("caller", "=", caller) : rows;
      },
    );
  return async (on, taskIds, caller) => {
    const name = `${taskIds.length} ${caller === null}`;
    let text = texts.get(name);
    if (text === undefined) {
      text = build(taskIds.length, caller !== null);
      texts.set(name, text);
    }
    const { rows } = await text.run(on, { ...numbered(taskIds), caller: caller ?? "" });
    return rows;
  };
}

function numbered(values: readonly string[]): Record<string, string> {
  return Object.fromEntries(values.map((value, index) => [`id${index}`, value]));
}

/** The oldest claim at or above `path`. */
export function claimAbove(db: Kysely<Schema>, path: string) {
  return claimHolders(db).where("claims.path", "in", atAndAbove(path));
}

/** The paths below `path` as a range of text: "/" is followed by "0" in the order of bytes, so "/ab" is not below "/a". */
export function below(path: string): { readonly from: string; readonly to: string } {
  const bare = path.endsWith("/") ? path.slice(0, -1) : path;
  return { from: `${bare}/`, to: `${bare}0` };
}

/** `path` and every directory above it. */
export function atAndAbove(path: string): readonly string[] {
  const paths = new Set([path, "/"]);
  for (let end = path.indexOf("/", 1); end > 0; end = path.indexOf("/", end + 1)) paths.add(path.slice(0, end));
  return [...paths];
}

export type ClaimRow = {
  readonly task_id: string;
  readonly caller: string;
  readonly since_ms: number;
  readonly thread_id: string;
};

/** What `caller` may know of the older of two claims (P16: another caller's holder has no handle). */
export function holderOf(claims: readonly (ClaimRow | undefined)[], caller: string): ClaimHolder | null {
  const [claim] = claims
    .filter((row) => row !== undefined)
    .sort((one, other) => one.since_ms - other.since_ms || (one.task_id < other.task_id ? -1 : 1));
  if (claim === undefined) return null;
  if (claim.caller !== caller) return { mine: false, sinceMs: claim.since_ms };
  const taskId = storedTaskId(claim.task_id);
  const handle = { taskId, childThreadId: storedThreadId(claim.thread_id), nodeId: nodeIdOf(taskId) };
  return { mine: true, handle, sinceMs: claim.since_ms };
}
