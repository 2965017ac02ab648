/**
 * The guard without its process: children by mark, what is known of their trees, and when they are stopped.
 *
 * A mark is open from the first spawn under it until its stop was proven. Every open mark is stopped by the guard itself when
 * the daemon falls silent, when it is gone, and when it is released.
 *
 * Invariant: nothing is started while the daemon counts as gone, nor after a release.
 * Invariant: the tree of every open mark is recorded at each tick and at the moment a child ends, so that the proof rests on
 * more than what can be seen after the kill.
 */

import type { StopReport } from "../core/command.ts";
import type { Mark } from "../core/ids.ts";
import type { ProcessIdentity } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { ChildGroups } from "./child-groups.ts";
import type { FrameChannel } from "./frame-channel.ts";
import { decodePayload, encodePayload, type Payloads } from "./guard-codec.ts";
import { FRAME, type Frame, numberIn } from "./guard-protocol.ts";
import { type GuardedChild, startGuardedChild } from "./guarded-child.ts";
import type { LeaseWatch } from "./lease-watch.ts";
import type { ProcessTable } from "./process-table.ts";
import { climbStopLadder } from "./stop-ladder.ts";
import { createTreeRecord, type TreeRecord } from "./tree-record.ts";

export type Guard = {
  /** Handles one frame of the daemon. Throws on a frame that no daemon of this version sends. */
  accept(frame: Frame): void;
  /**
   * Stops everything of every open mark and blames itself for it. Resolves when that is proven or given up, with the number
   * of marks that are still open.
   */
  stopAll(): Promise<number>;
};

export type GuardWorld = {
  readonly table: ProcessTable;
  readonly groups: ChildGroups | null;
  readonly clock: Clock;
  readonly channel: FrameChannel;
  readonly watch: LeaseWatch;
  /** Called after a release, when nothing is left to do. */
  readonly onReleased: () => void;
};

type Open = { readonly record: TreeRecord; readonly children: Set<GuardedChild> };

const SAMPLE_MS = 2_000;
const EMPTY = Buffer.alloc(0);

export function createGuard(world: GuardWorld): Guard {
  const { table, groups, clock, channel, watch } = world;
  const children = new Map<number, GuardedChild>();
  const open = new Map<Mark, Open>();
  const starting = new Set<Promise<void>>();
  const except = new Set([process.pid, process.ppid]);
  let released = false;

  const openOf = (mark: Mark): Open => {
    const known = open.get(mark);
    if (known !== undefined) return known;
    const fresh: Open = { record: createTreeRecord({ mark, bootId: table.bootId, except }), children: new Set() };
    open.set(mark, fresh);
    return fresh;
  };

  const look = async (justEnded?: { readonly record: TreeRecord; readonly root: ProcessIdentity }): Promise<void> => {
    const rows = await table.pass().catch(() => null);
    if (rows === null) return;
    for (const { record } of open.values()) {
      record.observe(rows, record === justEnded?.record ? { justEnded: justEnded.root } : {});
    }
  };
  const sample = (): void => {
    if (open.size > 0) void look();
    clock.after(SAMPLE_MS, sample);
  };
  clock.after(SAMPLE_MS, sample);

  const climb = async (mark: Mark, background: "reap" | "keep"): Promise<StopReport> => {
    const { record, children } = openOf(mark);
    const closeStdin = (): void => children.forEach((child) => child.closeStdin());
    const group = groups?.of(mark) ?? null;
    const report = await climbStopLadder({ table, clock }, { record, background, group, closeStdin, blockers: () => [] });
    if (report.kind === "proven") open.delete(mark);
    return report;
  };

  const stopAll = async (): Promise<number> => {
    for (const { children } of open.values()) children.forEach((child) => child.blameGuard());
    await Promise.all(starting);
    for (const { children } of open.values()) children.forEach((child) => child.blameGuard());
    await Promise.all([...open.keys()].map((mark) => climb(mark, "reap")));
    return open.size;
  };

  const refuse = (number: number, code: string, message: string): void =>
    channel.send(FRAME.spawnFailed, number, encodePayload("spawnFailed", { code, message }));

  const spawn = async (number: number, spec: Payloads["spawn"]): Promise<void> => {
    if (released || watch.silent()) return refuse(number, "GUARD_GONE", "the guard had no sign of life from the daemon");
    const entry = openOf(spec.mark);
    let root: ProcessIdentity | null = null;
    const place = {
      number,
      channel,
      onExit: () => void (root !== null && look({ record: entry.record, root })),
      onClosed: () => void children.delete(number),
    };
    const start = (): ReturnType<typeof startGuardedChild> => startGuardedChild(spec, place);
    const started = groups === null ? start() : groups.within(spec.mark, start);
    if ("failure" in started) {
      const { code, message } = await started.failure;
      if (!entry.record.everSeen()) open.delete(spec.mark);
      groups?.of(spec.mark)?.remove();
      return refuse(number, code, message);
    }
    const { child } = started;
    children.set(number, child);
    entry.children.add(child);
    root = (await table.identify(child.pid).catch(() => null)) ?? { pid: child.pid, startTime: "", bootId: table.bootId };
    entry.record.addRoot(root);
    channel.send(FRAME.started, number, encodePayload("started", root));
    child.open();
  };

  const stop = async (number: number, target: Payloads["stop"]): Promise<void> => {
    await Promise.all(starting);
    if (target.process !== null) openOf(target.mark).record.addRoot(target.process);
    const report = await climb(target.mark, target.background);
    channel.send(FRAME.stopped, number, encodePayload("stopped", report));
  };

  const release = async (number: number, { mode }: Payloads["release"]): Promise<void> => {
    released = true;
    if (mode === "hand_over") channel.send(FRAME.released, number, EMPTY);
    await stopAll();
    if (mode === "stop") channel.send(FRAME.released, number, EMPTY);
    world.onReleased();
  };

  const track = (work: Promise<void>): void => {
    const done = work.finally(() => starting.delete(done));
    starting.add(done);
  };

  return {
    stopAll,
    accept({ type, channel: number, payload }) {
      const child = children.get(number);
      switch (type) {
        case FRAME.beat:
          watch.beat();
          return channel.send(FRAME.heard, number, EMPTY);
        case FRAME.spawn:
          return track(spawn(number, decodePayload("spawn", payload)));
        case FRAME.stdin:
          return child?.writeStdin(payload);
        case FRAME.stdoutTaken:
          return child?.stdout.credit(numberIn(payload));
        case FRAME.stderrTaken:
          return child?.stderr.credit(numberIn(payload));
        case FRAME.stdoutUnread:
          return child?.stdout.unread();
        case FRAME.stderrUnread:
          return child?.stderr.unread();
        case FRAME.stop:
          channel.send(FRAME.heard, number, EMPTY);
          return void stop(number, decodePayload("stop", payload));
        case FRAME.release:
          return void release(number, decodePayload("release", payload));
        default:
          throw new Error(`no frame of type ${type}`);
      }
    },
  };
}
