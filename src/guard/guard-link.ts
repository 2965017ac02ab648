/**
 * The daemon's connection to one living guard: starts it, speaks with it, notices its end.
 *
 * Invariant: when the guard is gone, everything that waits for it is answered at once: children end as `guard_gone`, spawns
 * fail with `GUARD_GONE`, stops say `null` and are done without it.
 * Invariant: a guard that does not answer is killed, so that "gone" is always true when it is said.
 */

import type { StopReport } from "../core/command.ts";
import type { SpawnResult, SpawnSpec, StopTarget } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { createFrameChannel } from "./frame-channel.ts";
import { encodePayload } from "./guard-codec.ts";
import { createGuardInbox } from "./guard-inbox.ts";
import { FRAME, FRAME_BYTES_MAX } from "./guard-protocol.ts";
import { type GuardStart, type StartedGuard, startGuardProcess } from "./guard-start.ts";
import { createHearing } from "./hearing.ts";
import type { Pending } from "./pending.ts";

export type GuardLink = {
  spawn(spec: SpawnSpec): Promise<SpawnResult>;
  /** Null if the guard was gone or silent before it could report. */
  stop(target: StopTarget): Promise<StopReport | null>;
  beat(): void;
  /** Resolves when the guard has done or taken over what is to be done, or is gone. */
  release(mode: "stop" | "hand_over"): Promise<void>;
  isGone(): boolean;
  readonly gone: Promise<void>;
};

export type GuardLinkOptions = GuardStart & { readonly clock: Clock; readonly log: Log };

const HELLO_MS_MAX = 10_000;
/** How long a living guard may take to say that it heard a request. */
const HEARD_MS_MAX = 5_000;
const ANSWER_MS_MAX = 15_000;
/** How long a guard may take to end after it closed the connection. */
const EXIT_MS_MAX = 1_000;
const EMPTY = Buffer.alloc(0);
const TOO_LONG: SpawnResult = { kind: "failed", code: "E2BIG", message: "environment and arguments are too long" };

/** Resolves with the guard once it has spoken, or null if it could not be started; nothing of it runs then. */
export async function startGuard(options: GuardLinkOptions): Promise<GuardLink | null> {
  const started = startGuardProcess(options);
  const connected = started === null ? null : connect(started, options);
  if (started !== null && (await connected?.hello) === true) {
    options.log.info("guard_started", { pid: started.pid });
    return connected?.link ?? null;
  }
  options.log.error("guard_not_started", { pid: started?.pid, complaint: started?.complaint() });
  connected?.kill("no_hello");
  return null;
}

type Connected = { readonly link: GuardLink; readonly hello: Promise<boolean>; kill(why: string): void };

function connect(guard: StartedGuard, options: GuardLinkOptions): Connected {
  const { clock } = options;
  const inbox = createGuardInbox((type, number, payload) => channel.send(type, number, payload));
  const hearing = createHearing(options, () => kill("silent"));
  const gone = Promise.withResolvers<void>();
  let isGone = false;
  let lastNumber = 0;

  const lose = (): void => {
    isGone = true;
    inbox.lose();
    gone.resolve();
  };
  const kill = (why: string): void => {
    if (isGone) return;
    options.log.warn("guard_killed", { pid: guard.pid, why });
    guard.process.kill("SIGKILL");
    channel.destroy();
  };
  const onClosed = (): void => {
    clock.after(EXIT_MS_MAX, () => {
      guard.process.kill("SIGKILL");
      lose();
    });
  };
  const channel = createFrameChannel(
    guard.stream,
    (frame) => {
      hearing.heard();
      inbox.accept(frame);
    },
    onClosed,
  );
  guard.process.once("exit", (code, signal) => {
    options.log.info("guard_ended", { pid: guard.pid, code, signal, complaint: guard.complaint() });
    if (guard.stream.destroyed) lose();
    else guard.stream.once("close", lose);
  });

  const ask = <Answer>(pending: Pending<Answer>, type: number, payload: Buffer): Promise<Answer> => {
    if (isGone) return Promise.resolve(pending.lost);
    const number = ++lastNumber;
    channel.send(type, number, payload);
    hearing.expectFrame(HEARD_MS_MAX);
    return hearing.expectAnswer(pending.open(number), ANSWER_MS_MAX);
  };
  const link: GuardLink = {
    isGone: () => isGone,
    gone: gone.promise,
    beat() {
      channel.send(FRAME.beat, 0, EMPTY);
      hearing.beatSent();
    },
    async spawn({ stdin, ...spec }) {
      const payload = encodePayload("spawn", spec);
      if (payload.length > FRAME_BYTES_MAX / 2) return TOO_LONG;
      const result = await ask(inbox.spawns, FRAME.spawn, payload);
      if (result.kind === "started" && stdin !== null) {
        void result.child.write(stdin);
        result.child.closeStdin();
      }
      return result;
    },
    stop: (target) => ask(inbox.stops, FRAME.stop, encodePayload("stop", target)),
    release: (mode) => ask(inbox.releases, FRAME.release, encodePayload("release", { mode })),
  };
  return { link, kill, hello: hearing.expectAnswer(inbox.hello.open(0), HELLO_MS_MAX) };
}
