/**
 * Which child is at the other end of a connection: the socket's inode from the kernel's tables, then the process that holds
 * it, among the descriptors of those processes only that belong to a child. A crowd of new connections shares one look.
 *
 * A process belongs to a child if it is in the child's control group, which nothing leaves, where there are such groups; else
 * if it carries a mark or if one above it does, or the leader of its session: a child can start helpers with a cleaned
 * environment.
 *
 * Invariant: of several marks above a process the outermost of this daemon counts. Children never sit below one another (the
 * guard starts them all), so an inner mark of ours is one that a child wrote itself, to pass for a sibling.
 * Invariant: what is above this daemon says nothing about its children; somebody's child may have started it.
 * Invariant: what cannot be found out within the time is null; the event loop is never held for longer than a few
 * milliseconds at a time.
 * Known escapes: one that was given the socket by a child, and one that forbids reading it; where there are no control groups
 * also a process that left its session, cleared its environment and lost its parent, and a child that starts itself again
 * under a sibling's mark. The credential still tells what such a process may do.
 * Absent on purpose: remembering answers. A connection is asked about once, by whoever owns it.
 */

import { readdirSync, readlinkSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

import { type Mark, markOf, parseMark } from "../core/ids.ts";
import type { PeerAddress, Peers } from "../ports/peers.ts";
import { createBreather } from "./breather.ts";
import { type ChildGroups, findChildGroups } from "./child-groups.ts";
import { createLinuxRowReader, linuxPids } from "./linux-process-table.ts";
import type { ProcessRow } from "./process-table.ts";
import { type Connection, readSocketTable } from "./socket-table.ts";

export type PeersOptions = {
  /** As `process.platform` has it; elsewhere than on `linux` nothing is ever found. */
  readonly platform: string;
  /** The daemon that asks: its own marks count before those of others. */
  readonly daemonId: string;
};

/** The daemon, as a name and as a process. */
export type Asker = { readonly daemonId: string; readonly pid: number };

export type Member = { readonly pid: number; readonly mark: Mark };

const LOOK_MS_MAX = 250;
const LEVELS_MAX = 32;

export function createPeers({ platform, daemonId }: PeersOptions): Peers {
  if (platform !== "linux") return { markOf: () => Promise.resolve(null) };
  const groups = findChildGroups();
  const table = sharedLook(() => readSocketTable(createBreather()));
  const grouped = sharedLook(() => holdersAmong(groups === null ? [] : groupedMembers(groups, daemonId)));
  const others = sharedLook(async () => holdersAmong(await childProcesses({ daemonId, pid: process.pid })));
  const find = async (connection: Connection): Promise<Mark | null> => {
    const sockets = (await table()).socketsOf(connection);
    if (sockets.length === 0) return null;
    return holderOf(sockets, await grouped()) ?? holderOf(sockets, await others());
  };
  return {
    async markOf(peer) {
      const connection = connectionOf(peer);
      if (connection === null) return null;
      const over = new AbortController();
      const late = delay(LOOK_MS_MAX, null, { ref: false, signal: over.signal });
      try {
        return await Promise.race([find(connection), late]);
      } catch {
        return null;
      } finally {
        over.abort();
        late.catch(() => {});
      }
    },
  };
}

function connectionOf({ remoteAddress, remotePort, localPort }: PeerAddress): Connection | null {
  if (remoteAddress === undefined || remotePort === undefined || localPort === undefined) return null;
  return { address: remoteAddress, port: remotePort, localPort };
}

/** Who holds which socket. */
type Holders = ReadonlyMap<string, Mark>;

function holderOf(sockets: readonly string[], holders: Holders): Mark | null {
  return sockets.map((socket) => holders.get(socket)).find((mark) => mark !== undefined) ?? null;
}

async function holdersAmong(members: readonly Member[]): Promise<Holders> {
  const breathe = createBreather();
  const holders = new Map<string, Mark>();
  for (const { pid, mark } of members) {
    for (const socket of socketsHeldBy(pid)) if (!holders.has(socket)) holders.set(socket, mark);
    await breathe();
  }
  return holders;
}

/** None also of a process that has gone or forbids it. */
function socketsHeldBy(pid: number): readonly string[] {
  try {
    const links = readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`));
    return links.filter((link) => link.startsWith("socket:"));
  } catch {
    return [];
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** Whom the guard of this daemon put into a group of its own: nothing that they do to themselves changes that. */
function groupedMembers(groups: ChildGroups, daemonId: string): readonly Member[] {
  return groups.members().flatMap(({ name, pid }) => {
    const parsed = parseMark(name);
    return parsed?.daemonId === daemonId ? [{ pid, mark: markOf(daemonId, parsed.attemptId) }] : [];
  });
}

/** All processes here that belong to a child, the newest first: those are the ones that connect. */
async function childProcesses(asker: Asker): Promise<readonly Member[]> {
  const until = performance.now() + LOOK_MS_MAX;
  const breathe = createBreather();
  const read = createLinuxRowReader();
  const rows = new Map<number, ProcessRow>();
  for (const pid of linuxPids()) {
    if (performance.now() > until) return [];
    const row = read(pid);
    if (row !== null) rows.set(pid, row);
    await breathe();
  }
  return membersOf(rows, asker).reverse();
}

export function membersOf(rows: ReadonlyMap<number, ProcessRow>, asker: Asker): Member[] {
  const marksAbove = (pid: number): readonly Mark[] => marksOf(lineOf(pid, rows, asker.pid));
  return [...rows.values()].flatMap((row) => {
    if (row.zombie || row.pid === asker.pid) return [];
    const mark = chosenMark([...marksAbove(row.pid), ...marksAbove(row.sid)], asker.daemonId);
    return mark === null ? [] : [{ pid: row.pid, mark }];
  });
}

/** A process and those above it, itself first, up to the daemon that asks. */
function lineOf(pid: number, rows: ReadonlyMap<number, ProcessRow>, top: number): readonly ProcessRow[] {
  const line: ProcessRow[] = [];
  for (let row = rows.get(pid); row !== undefined && row.pid !== top; row = rows.get(row.ppid)) {
    line.push(row);
    if (line.length > LEVELS_MAX) break;
  }
  return line;
}

/** What only looks like a mark is none. */
function marksOf(line: readonly ProcessRow[]): readonly Mark[] {
  return line.flatMap(({ mark }) => {
    const parsed = mark === null ? null : parseMark(mark);
    return parsed === null ? [] : [markOf(parsed.daemonId, parsed.attemptId)];
  });
}

function chosenMark(innermostFirst: readonly Mark[], daemonId: string): Mark | null {
  const ours = innermostFirst.findLast((mark) => parseMark(mark)?.daemonId === daemonId);
  return ours ?? innermostFirst[0] ?? null;
}

/**
 * One look is shared by all who asked before it began, and the next one begins only after a rest as long as the last look: a
 * loop that looks takes in one connection a turn, so without it a crowd would cost one look each.
 */
function sharedLook<Value>(look: () => Promise<Value>): () => Promise<Value> {
  let next: Promise<Value> | null = null;
  let running: Promise<unknown> = Promise.resolve();
  return () => {
    next ??= running.then(() => {
      next = null;
      const beganMs = performance.now();
      const looking = look();
      running = looking.catch(() => null).then(() => delay(performance.now() - beganMs, null, { ref: false }));
      return looking;
    });
    return next;
  };
}
