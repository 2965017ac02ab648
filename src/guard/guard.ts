/**
 * The guard without its process: what each frame of the daemon does.
 *
 * Every open mark is stopped by the guard itself when the daemon falls silent, when it is gone, and when it is released.
 *
 * Invariant: nothing is started while the daemon counts as gone, nor after a release.
 * Invariant: a stop waits for the starts that came before it, so it never misses a child that is just being started.
 */

import type { ProcessIdentity } from "../core/task.ts";
import type { FrameChannel } from "./frame-channel.ts";
import { decodePayload, encodePayload, type Payloads } from "./guard-codec.ts";
import { FRAME, type Frame, numberIn } from "./guard-protocol.ts";
import { type GuardedChild, type StartedOrNot, startGuardedChild } from "./guarded-child.ts";
import type { LeaseWatch } from "./lease-watch.ts";
import { createOpenMarks, type OpenMarks, type OpenMarksWorld } from "./open-marks.ts";

export type Guard = {
  /** Handles one frame of the daemon. Throws on a frame that no daemon of this version sends. */
  accept(frame: Frame): void;
  /**
   * Stops everything of every open mark and blames itself for it. Resolves when that is proven or given up, with the number
   * of marks that are still open.
   */
  stopAll(): Promise<number>;
};

export type GuardWorld = OpenMarksWorld & {
  readonly channel: FrameChannel;
  readonly watch: LeaseWatch;
  /** Called after a release, when nothing is left to do. */
  readonly onReleased: () => void;
};

const EMPTY = Buffer.alloc(0);
const NO_DAEMON = { code: "GUARD_GONE", message: "the guard has no sign of life from the daemon" };

export function createGuard(world: GuardWorld): Guard {
  const { channel, watch } = world;
  const marks = createOpenMarks(world);
  const children = new Map<number, GuardedChild>();
  const starting = new Set<Promise<void>>();
  let released = false;

  const blameGuard = (): void => {
    for (const { children } of marks.all()) for (const child of children) child.blameGuard();
  };
  const stopAll = async (): Promise<number> => {
    blameGuard();
    await Promise.all(starting);
    blameGuard();
    return marks.stopAll();
  };
  const spawn = async (number: number, spec: Payloads["spawn"]): Promise<void> => {
    const away = released || watch.silent();
    const failure = away ? NO_DAEMON : await startChild(world, { marks, children }, number, spec);
    if (failure !== null) channel.send(FRAME.spawnFailed, number, encodePayload("spawnFailed", failure));
  };
  const stop = async (number: number, target: Payloads["stop"]): Promise<void> => {
    await Promise.all(starting);
    if (target.process !== null) marks.entryOf(target.mark).record.addRoot(target.process);
    const report = await marks.stop(target.mark, target.background);
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

  const accept = ({ type, channel: number, payload }: Frame): void => {
    const child = children.get(number);
    switch (type) {
      case FRAME.beat:
        watch.beat();
        return channel.send(FRAME.heard, number, EMPTY);
      case FRAME.spawn:
        return track(spawn(number, decodePayload("spawn", payload)));
      case FRAME.stop:
        channel.send(FRAME.heard, number, EMPTY);
        return void stop(number, decodePayload("stop", payload));
      case FRAME.release:
        channel.send(FRAME.heard, number, EMPTY);
        return void release(number, decodePayload("release", payload));
      default:
        if (!acceptStream(type, payload, child)) throw new Error(`no frame of type ${type}`);
    }
  };
  return { stopAll, accept };
}

type Books = { readonly marks: OpenMarks; readonly children: Map<number, GuardedChild> };

/** Starts a child and tells the daemon; a failed start is returned, nothing runs then. */
async function startChild(
  { table, groups, channel }: GuardWorld,
  { marks, children }: Books,
  number: number,
  spec: Payloads["spawn"],
): Promise<Payloads["spawnFailed"] | null> {
  const { mark } = spec;
  const entry = marks.entryOf(mark);
  let root: ProcessIdentity | null = null;
  const onExit = (): void => void (root !== null && marks.noteEnd(mark, root));
  const onClosed = (): void => void children.delete(number);
  const start = (): StartedOrNot => startGuardedChild(spec, { number, channel, onExit, onClosed });
  const started = groups === null ? start() : groups.within(mark, start);
  if ("failure" in started) {
    const failure = await started.failure;
    if (!entry.record.everSeen()) marks.forget(mark);
    groups?.of(mark)?.remove();
    return failure;
  }
  const { child } = started;
  children.set(number, child);
  entry.children.add(child);
  const identity = await table.identify(child.pid).catch(() => null);
  root = identity ?? { pid: child.pid, startTime: "", bootId: table.bootId };
  entry.record.addRoot(root);
  channel.send(FRAME.started, number, encodePayload("started", root));
  child.open();
  return null;
}

/** Frames of a child's streams; those of a child that is gone are late, not wrong. False: no such frame. */
function acceptStream(type: number, payload: Buffer, child: GuardedChild | undefined): boolean {
  switch (type) {
    case FRAME.stdin:
      child?.writeStdin(payload);
      return true;
    case FRAME.stdoutTaken:
      child?.stdout.credit(numberIn(payload));
      return true;
    case FRAME.stderrTaken:
      child?.stderr.credit(numberIn(payload));
      return true;
    case FRAME.stdoutUnread:
      child?.stdout.unread();
      return true;
    case FRAME.stderrUnread:
      child?.stderr.unread();
      return true;
    default:
      return false;
  }
}
