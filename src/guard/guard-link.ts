/**
 * The daemon's connection to one living guard: starts it, speaks with it, notices its end.
 *
 * Invariant: when the guard is gone, everything that waits for it is answered at once: children end as `guard_gone`, spawns
 * fail with `GUARD_GONE`, stops say `null` and are done without it.
 * Invariant: a guard that does not answer is killed, so that "gone" is always true when it is said. It is judged by looking
 * twice, because a daemon that was itself frozen finds the guard's answers unread in the pipe.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import type { StopReport } from "../core/command.ts";
import type { SpawnResult, SpawnSpec, StopTarget } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { createFrameChannel } from "./frame-channel.ts";
import { decodePayload, encodePayload } from "./guard-codec.ts";
import { FRAME, type Frame, PROTOCOL_VERSION } from "./guard-protocol.ts";
import { GUARD_VARIABLE, guardOwnerText } from "./marker.ts";
import { createRemoteChild, type RemoteChild } from "./remote-child.ts";

export type GuardLink = {
  readonly pid: number;
  spawn(spec: SpawnSpec): Promise<SpawnResult>;
  /** Null if the guard was gone or silent before it could report. */
  stop(target: StopTarget): Promise<StopReport | null>;
  beat(): void;
  /** Resolves when the guard has done or taken over what is to be done, or is gone. */
  release(mode: "stop" | "hand_over"): Promise<void>;
  isGone(): boolean;
  readonly gone: Promise<void>;
};

export type GuardLinkOptions = {
  readonly daemonId: string;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly execPath: string;
  readonly useGroups: boolean;
};

const HELLO_MS_MAX = 10_000;
/** How long a living guard may take to say that it heard a request. */
const HEARD_MS_MAX = 5_000;
const SPAWN_MS_MAX = 15_000;
const STOP_MS_MAX = 15_000;
const SECOND_LOOK_MS = 50;
const BEATS_UNHEARD_MIN = 3;
const STDERR_CHARACTERS_MAX = 2_000;
/** What a guard needs of the daemon's environment; the rest may hold secrets, which are none of its business. */
const ENVIRONMENT_NAMES = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "TZ"];
const EMPTY = Buffer.alloc(0);
const GUARD_GONE: SpawnResult = { kind: "failed", code: "GUARD_GONE", message: "the guard process is gone" };

/** Resolves with the guard once it has spoken, or null if it could not be started; nothing of it runs then. */
export async function startGuard(options: GuardLinkOptions): Promise<GuardLink | null> {
  const { log } = options;
  const started = startGuardProcess(options);
  if (started === null) {
    log.error("guard_not_started");
    return null;
  }
  const link = createLink(started, options);
  const spoke = await link.hello;
  if (!spoke) log.error("guard_not_started", { pid: started.pid });
  else log.info("guard_started", { pid: started.pid });
  return spoke ? link : null;
}

type StartedGuard = { readonly process: ChildProcess; readonly pid: number; readonly stream: Duplex };

function startGuardProcess({ daemonId, leaseMs, execPath, useGroups, log }: GuardLinkOptions): StartedGuard | null {
  const script = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./guard-process.ts" : "./guard-process.js", import.meta.url));
  const inherited = ENVIRONMENT_NAMES.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const guard = spawn(execPath, [script, daemonId, String(leaseMs), useGroups ? "groups" : "plain"], {
    detached: true,
    cwd: "/",
    stdio: ["ignore", "ignore", "pipe", "pipe"],
    env: { ...Object.fromEntries(inherited), [GUARD_VARIABLE]: guardOwnerText({ daemonId, daemonPid: process.pid }) },
  });
  guard.on("error", (error) => log.error("guard_process_error", { message: error.message }));
  guard.unref();
  const stream = guard.stdio[3];
  return guard.pid === undefined || !(stream instanceof Duplex) ? null : { process: guard, pid: guard.pid, stream };
}
