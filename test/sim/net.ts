/**
 * The way between clients and whatever daemon is alive: slow, lossy, and honest in the history.
 *
 * Invariant: a call that was sent ends in the history as an answer or as unanswered, unless the daemon never ends it.
 */

import type { Clock } from "../../src/ports/clock.ts";
import { type Caller, parentOf } from "../../src/core/caller.ts";
import type { Answer, Engine } from "../../src/ports/engine.ts";
import type { EntryOf } from "../support/history.ts";
import { audienceOf } from "../support/history-scene.ts";
import type { Random } from "../support/sim-random.ts";
import { shownOf } from "./answers.ts";
import { type Life, sleep } from "./life.ts";
import type { Recorder } from "./recorder.ts";

export type Sent = Omit<
  EntryOf<"call">,
  "kind" | "id" | "atMs" | "runMs" | "client" | "caller" | "by" | "conversation" | "atRest"
>;

export type Net = {
  /** Sends a call. Null if no answer came. */
  send(from: Sender, sent: Sent, invoke: Invoke): Promise<Answer | null>;
  /** Calls that have neither an answer nor an end. */
  readonly open: number;
  /** Nothing is lost, doubled or left any more. */
  calm: boolean;
};

export type Sender = { readonly name: string; readonly caller: Caller; readonly atRest: boolean };
export type Invoke = (engine: Engine, signal: AbortSignal) => Promise<Answer>;
export type Serving = { readonly life: Life; readonly engine: Engine };

export function createNet(world: {
  readonly clock: Clock;
  readonly random: Random;
  readonly recorder: Recorder;
  /** Who serves now, or nobody. */
  readonly serving: () => Serving | null;
  /** How often something is lost, 0 to 1. */
  readonly lossy: number;
}): Net {
  const { clock, random, recorder, lossy } = world;
  let lastId = 0;
  let open = 0;

  const net: Net = {
    calm: false,
    get open() {
      return open;
    },
    async send(from, sent, invoke) {
      const doubled = !net.calm && random.chance(lossy / 10);
      const once = carry(from, sent, invoke);
      if (!doubled) return once;
      const [first, second] = await Promise.all([once, carry(from, sent, invoke)]);
      return first ?? second;
    },
  };
  return net;

  async function carry(from: Sender, sent: Sent, invoke: Invoke): Promise<Answer | null> {
    lastId += 1;
    const id = lastId;
    const { name: client, caller, atRest } = from;
    recorder.count("calls");
    recorder.add({
      kind: "call",
      id,
      client,
      caller: audienceOf(caller.name, parentOf(caller)),
      by: caller.kind,
      conversation: caller.conversation,
      atRest,
      ...sent,
    });
    open += 1;
    try {
      return await arrive(id, sent, invoke);
    } finally {
      open -= 1;
    }
  }

  async function arrive(id: number, sent: Sent, invoke: Invoke): Promise<Answer | null> {
    if (!net.calm && random.chance(lossy / 3)) return lost(id, "not_sent");
    await sleep(clock, random.int(0, 30));
    const serving = world.serving();
    if (serving === null || !(await serving.life.moving())) return lost(id, "not_sent");
    const { life, engine } = serving;
    const leaving = new AbortController();
    const left = leaveEarly(sent, leaving);
    const got = await Promise.race([invoke(engine, leaving.signal), life.died.then(() => null)]);
    left?.[Symbol.dispose]();
    if (got === null || !life.alive) return lost(id, "cut");
    const delivered = !leaving.signal.aborted && (net.calm || !random.chance(lossy));
    recorder.add({ kind: "answer", id, delivered, ...shownOf(got) });
    if (!delivered && !leaving.signal.aborted) recorder.count("lostAnswers");
    await sleep(clock, random.int(0, 30));
    return delivered ? got : null;
  }

  function lost(id: number, why: "not_sent" | "cut"): null {
    recorder.count("lostCalls");
    recorder.add({ kind: "unanswered", id, why });
    return null;
  }

  /** Some clients give up in the middle of a wait. */
  function leaveEarly(sent: Sent, leaving: AbortController): Disposable | null {
    if (net.calm || sent.waitMs === 0 || !random.chance(lossy)) return null;
    return clock.after(random.int(1, sent.waitMs), () => {
      recorder.count("abortedWaits");
      leaving.abort();
    });
  }
}
