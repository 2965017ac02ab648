/**
 * Everybody who uses a simulated world: two callers with two windows and a person each, and somebody who answers children.
 */

import type { Caller } from "../../src/core/caller.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Random } from "../support/sim-random.ts";
import type { Temper } from "./chaos.ts";
import type { ClientWorld, Desk } from "./clients.ts";
import type { Daemons } from "./daemon.ts";
import { sleep } from "./life.ts";
import type { Net } from "./net.ts";
import type { Recorder } from "./recorder.ts";
import type { SimStore } from "./sim-store.ts";

const PAT: Caller = { name: "pat", scopes: ["admin"], kind: "person", conversation: null };

export type PeopleWorld = {
  readonly clock: Clock;
  readonly random: Random;
  readonly recorder: Recorder;
  readonly net: Net;
  readonly temper: Temper;
  readonly stormy: () => boolean;
};

export function createClients(world: PeopleWorld): readonly ClientWorld[] {
  const { clock, random, recorder, net, temper, stormy } = world;
  const desks: readonly Desk[] = ["ada", "bob"].map((name) => ({ name, works: [], continued: [], views: new Map() }));
  return desks.flatMap((desk) =>
    (["caller", "caller", "person"] as const).map((kind, index): ClientWorld => {
      const name = `${desk.name}-${kind}-${index}`;
      const conversation = kind === "person" ? null : `${desk.name}-window-${index}`;
      const caller: Caller = { name: desk.name, scopes: ["read", "delegate"], kind, conversation };
      const others = desks.filter((other) => other !== desk);
      const shared = { clock, recorder, net, stormy, temper: temper.client };
      return { ...shared, random: random.fork(name), desk, name, caller, others };
    }),
  );
}

/** A person who answers some of the children's questions, beside the engine, which has no verb for it yet. */
export async function answerQuestions(
  world: Omit<PeopleWorld, "net" | "recorder"> & {
    readonly store: SimStore;
    readonly daemons: Daemons;
  },
): Promise<void> {
  const { clock, store, daemons, temper, stormy } = world;
  const random = world.random.fork("answers");
  while (stormy()) {
    await sleep(clock, random.int(5_000, 40_000));
    const { serving } = daemons;
    if (!serving?.life.alive || !random.chance(temper.answering)) continue;
    const task = (await store.truth.unfinished()).find(({ state }) => state.kind === "awaiting_answer");
    if (task?.state.kind !== "awaiting_answer") continue;
    const { questionId, optionIds } = task.state.question;
    const request = { taskId: task.handle.taskId, questionId, optionId: random.pick(optionIds), text: null };
    await serving.engine.answer(request, PAT).catch(() => null);
  }
}
