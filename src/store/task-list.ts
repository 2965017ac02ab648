/**
 * Queries whose shape depends on what is asked: lists by filter, and tasks by id.
 *
 * Invariant: a list's first page is found by an index for every single filter, with and without a caller.
 */

import { type Kysely, sql } from "kysely";
import type { Reach } from "../core/caller.ts";
import type { TaskId } from "../core/ids.ts";
import type { TaskQuery } from "../ports/store.ts";
import { numbered, type Prepared, prepare, prepareVariants } from "./prepared.ts";
import type { Schema } from "./schema.ts";
import { lineageBelow, rootOf } from "./task-flags.ts";

/** A page is cut to this, whatever is asked. */
export const PAGE_MAX = 500;
/** Sorts after every text that begins with the prefix it is put behind. */
const LAST = "\u{10FFFF}";

/** Where the tasks below the end of a path are: one tree, one range of lineages ("0" follows "/" in the order of bytes). */
export function placeBelow(path: readonly TaskId[]): {
  readonly root: string;
  readonly from: string;
  readonly to: string;
} {
  const from = lineageBelow(path);
  return { root: rootOf(path), from, to: `${from.slice(0, -1)}0` };
}

/** The same for lists of nothing but ids, which are counted. */
const IDS_MAX = 100_000;

export function idsSize(limit: number): number {
  return Math.max(1, Math.min(limit, IDS_MAX));
}

export function pageSize(limit: number): number {
  return Math.max(1, Math.min(limit, PAGE_MAX));
}

type ListArguments = {
  readonly caller: string;
  readonly conversation: string;
  readonly status: string;
  readonly parent: string;
  readonly from: string;
  readonly to: string;
  readonly before: string;
  readonly root: string;
  readonly lineageFrom: string;
  readonly lineageTo: string;
  readonly rows: number;
};
const SAMPLES: ListArguments = {
  caller: "a",
  conversation: "b",
  status: "c",
  parent: "d",
  from: "e",
  to: "f",
  before: "g",
  root: "h",
  lineageFrom: "i",
  lineageTo: "j",
  rows: 1,
};

type SnapshotRow = { readonly snapshot: string };

/** The list query for a combination of filters; `args` are what it is run with. */
export type ListQueries = (query: TaskQuery) => {
  readonly text: Prepared<ListArguments, SnapshotRow>;
  readonly args: ListArguments;
};

export function createListQueries(db: Kysely<Schema>): ListQueries {
  const variants = prepareVariants((variant) => listByFilters(db, new Set(variant.split(" "))));
  return (query) => ({
    text: variants(filtersOf(query).join(" ")),
    args: {
      conversation: query.conversation ?? "",
      status: query.status ?? "",
      parent: query.parentTaskId ?? "",
      from: query.idPrefix ?? "",
      to: `${query.idPrefix ?? ""}${LAST}`,
      before: query.before ?? "",
      ...reachArguments(query),
      // One more than the page, to know whether there are more.
      rows: pageSize(query.limit) + 1,
    },
  });
}

function reachArguments({ caller, below }: Reach) {
  const place = below === null ? { root: "", from: "", to: "" } : placeBelow(below);
  return { caller: caller ?? "", root: place.root, lineageFrom: place.from, lineageTo: place.to };
}

function filtersOf(query: TaskQuery): readonly string[] {
  const filters = {
    caller: query.caller !== null,
    open: query.open,
    unread: query.unread,
    conversation: query.conversation !== null,
    status: query.status !== null,
    root: query.parentTaskId === "root",
    parent: query.parentTaskId !== null && query.parentTaskId !== "root",
    below: query.below !== null,
    prefix: query.idPrefix !== null && query.idPrefix !== "",
    before: query.before !== null,
  };
  return Object.entries(filters).flatMap(([name, isSet]) => (isSet ? [name] : []));
}

/** Newest first: ids are ordered by time. */
function listByFilters(db: Kysely<Schema>, filters: ReadonlySet<string>): Prepared<ListArguments, SnapshotRow> {
  // A tree is bounded, a caller's tasks are not: within a tree no index that knows the order of ids may be taken.
  const id = filters.has("below") ? sql<string>`${sql.ref("task_id")} || ''` : sql<string>`${sql.ref("task_id")}`;
  return prepare(SAMPLES, (args) => {
    let rows = db.selectFrom("tasks").select("snapshot");
    if (filters.has("caller")) rows = rows.where("caller", "=", args.caller);
    if (filters.has("below")) {
      rows = rows
        .where("root_id", "=", args.root)
        .where("lineage", ">=", args.lineageFrom)
        .where("lineage", "<", args.lineageTo);
    }
    // Open tasks are among those to look at, which have an index across callers.
    if (filters.has("open")) rows = rows.where("is_open", "=", sql.lit(1)).where("needs_look", "=", sql.lit(1));
    if (filters.has("unread")) rows = rows.where("is_unread", "=", sql.lit(1));
    if (filters.has("conversation")) rows = rows.where("conversation", "=", args.conversation);
    if (filters.has("status")) rows = rows.where("status", "=", args.status);
    // Those that have a parent lie between, but no more of them than a tree holds.
    if (filters.has("root")) rows = rows.where("parent_id", "is", null);
    if (filters.has("parent")) rows = rows.where("parent_id", "=", args.parent);
    if (filters.has("prefix")) rows = rows.where(id, ">=", args.from).where(id, "<", args.to);
    if (filters.has("before")) rows = rows.where(id, "<", args.before);
    return rows.orderBy(id, "desc").limit(args.rows);
  });
}

/** The query for so many ids and this form of reach, one at least; `args` are what it is run with. */
export type TasksByIds = (
  taskIds: readonly TaskId[],
  reach: Reach,
) => {
  readonly text: Prepared<Readonly<Record<string, string>>, IdRow>;
  readonly args: Readonly<Record<string, string>>;
};

type IdRow = { readonly task_id: string; readonly snapshot: string };

export function createTasksByIds(db: Kysely<Schema>): TasksByIds {
  const variants = prepareVariants((variant) => {
    const [count, ...filters] = variant.split(" ");
    return tasksByIds(db, Number(count), new Set(filters));
  });
  return (taskIds, reach) => {
    const filters = [...(reach.caller === null ? [] : ["caller"]), ...(reach.below === null ? [] : ["below"])];
    return {
      text: variants([taskIds.length, ...filters].join(" ")),
      args: { ...numbered(taskIds), ...reachArguments(reach) },
    };
  };
}

function tasksByIds(
  db: Kysely<Schema>,
  count: number,
  filters: ReadonlySet<string>,
): Prepared<Readonly<Record<string, string>>, IdRow> {
  const ids = Array.from({ length: count }, (_, index) => `id ${index}`);
  const reach = { caller: "caller", root: "root", lineageFrom: "from", lineageTo: "to" };
  // As an expression, so that tasks are looked up by their ids and a whole tree is never read for a few of it.
  const lineage = sql<string>`${sql.ref("lineage")} || ''`;
  return prepare({ ...numbered(ids), ...reach }, () => {
    let rows = db.selectFrom("tasks").select(["task_id", "snapshot"]).where("task_id", "in", ids);
    if (filters.has("caller")) rows = rows.where("caller", "=", reach.caller);
    if (filters.has("below")) rows = rows.where(lineage, ">=", reach.lineageFrom).where(lineage, "<", reach.lineageTo);
    return rows;
  });
}
