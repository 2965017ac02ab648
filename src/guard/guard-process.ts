/**
 * The guard: one small process beside each daemon that starts its children and can stop them without it.
 *
 * Its own entry, started by `guard-link.ts` in a session of its own with the daemon's connection as descriptor 3. It outlives
 * the daemon just long enough to stop what the daemon left.
 *
 * Invariant: it never ends while a child of an open mark may run, except by SIGKILL or after three ladders in vain.
 * Invariant: Ctrl-C and a closed terminal do not reach it; SIGTERM means "stop the children, then end".
 * Absent on purpose: a log. The daemon tells what the guard reports, and has its standard error for what it could not.
 */

import { Socket } from "node:net";
import { probeChildGroups } from "./child-groups.ts";
import { createFrameChannel } from "./frame-channel.ts";
import { createGuard, type Guard } from "./guard.ts";
import { createGuardClock } from "./guard-clock.ts";
import { encodePayload } from "./guard-codec.ts";
import { FRAME, PROTOCOL_VERSION } from "./guard-protocol.ts";
import { createLeaseWatch } from "./lease-watch.ts";
import { sharePasses } from "./process-table.ts";
import { createSystemProcessTable } from "./system-process-table.ts";

const CONNECTION = 3;
const LADDERS_MAX = 3;
/** How long what is under way may take to reach the daemon. */
const GOODBYE_MS_MAX = 1_000;
const EXIT_CRASHED = 70;

await run(Number(process.argv[3]), process.argv[4] === "groups");

async function run(leaseMs: number, useGroups: boolean): Promise<void> {
  const clock = createGuardClock();
  const table = sharePasses(await createSystemProcessTable(), clock.after);
  const groups = useGroups ? probeChildGroups() : null;
  let guard: Guard | null = null;
  let leaving = false;
  let stopping = false;

  const leave = (exitCode: number): void => {
    if (leaving) return;
    leaving = true;
    process.exitCode = exitCode;
    channel.end();
    if (stream.destroyed) process.exit();
    clock.after(GOODBYE_MS_MAX, () => process.exit());
  };
  const stopAndLeave = async (exitCode: number): Promise<void> => {
    if (stopping) return;
    stopping = true;
    for (let ladder = 0; ladder < LADDERS_MAX; ladder++) {
      if (((await guard?.stopAll()) ?? 0) === 0) break;
    }
    leave(exitCode);
  };

  const stream = new Socket({ fd: CONNECTION, readable: true, writable: true });
  const channel = createFrameChannel(
    stream,
    (frame) => guard?.accept(frame),
    () => (leaving ? process.exit() : void stopAndLeave(0)),
  );
  const watch = createLeaseWatch(clock, leaseMs, () => void guard?.stopAll());
  guard = createGuard({ table, groups, clock, channel, watch, onReleased: () => leave(0) });

  process.on("SIGTERM", () => void stopAndLeave(0));
  process.on("SIGINT", () => undefined);
  process.on("SIGHUP", () => undefined);
  process.stderr.on("error", () => undefined);
  process.on("uncaughtException", (error) => {
    process.stderr.write(`${error.stack ?? error.message}\n`, () => undefined);
    void stopAndLeave(EXIT_CRASHED);
  });
  channel.send(FRAME.hello, 0, encodePayload("hello", { protocol: PROTOCOL_VERSION, pid: process.pid }));
}
