/**
 * Children that delegate in their turn: they act while their attempt lives, and sometimes a moment longer.
 *
 * Invariant: a child knows its lineage from the daemon alone, as a real one has it from its credential.
 */

import type { Caller, Lineage } from "../../src/core/caller.ts";
import { attemptOf } from "../../src/core/evolve.ts";
import type { Task } from "../../src/core/task.ts";
import type { DelegateRequest, Hold } from "../../src/ports/engine.ts";
import type { Random } from "../support/sim-random.ts";
import { NO_SENT, PATHS, sentOf } from "./clients.ts";
import type { Daemons } from "./daemon.ts";
import { sleep } from "./life.ts";
import type { Sender, Sent } from "./net.ts";
import type { PeopleWorld } from "./people.ts";
import type { SimStore } from "./sim-store.ts";

export type KidsWorld = PeopleWorld & { readonly store: SimStore; readonly daemons: Daemons };

type Child = Extract<Caller, { readonly kind: "child" }>;

/** Several at a time, so that ancestors wait while their descendants need places. */
export function runKids(world: KidsWorld): readonly Promise<void>[] {
  return [1, 2, 3].map((number) => runKid(world, world.random.fork(`kid ${number}`)));
}

async function runKid(world: KidsWorld, random: Random): Promise<void> {
  const { clock, store, daemons, temper, stormy } = world;
  while (stormy()) {
    await sleep(clock, random.int(1_000, 15_000));
    const { serving } = daemons;
    if (!serving?.life.alive || !random.chance(temper.delegating)) continue;
    const alive = (await store.truth.unfinished()).filter(({ state }) => (attemptOf(state)?.process ?? null) !== null);
    const parent = alive.length === 0 ? null : random.pick(alive);
    const attempt = parent === null ? null : attemptOf(parent.state);
    if (attempt === null) continue;
    const { life, engine } = serving;
    const found = engine.childOf(attempt.attemptId).catch(() => null);
    const caller = await Promise.race([found, life.died.then(() => null)]);
    if (caller?.kind !== "child") continue;
    // What it does next may reach the daemon after its attempt is over.
    if (random.chance(0.3)) await sleep(clock, random.int(100, 10_000));
    await act(world, random, caller);
  }
}

async function act(world: KidsWorld, random: Random, caller: Child): Promise<void> {
  const { net, recorder, store, temper } = world;
  const from: Sender = { name: `child of ${caller.lineage.taskId}`, caller, atRest: false };
  const waitMs = random.int(1_000, temper.client.waitMs);
  const hold = (signal: AbortSignal): Hold => ({ waitMs, signal, onHeld: null });
  const below = (await everyTask(store)).filter(({ origin }) => origin.ancestors.includes(caller.lineage.taskId));
  const deed = random.weighted<"delegate" | "wait" | "status" | "cancel">([
    [4, "delegate"],
    [4, "wait"],
    [1, "status"],
    [0.5, "cancel"],
  ]);
  switch (deed) {
    case "delegate": {
      const key = `kid-${random.int(1, 3)}`;
      const request = workOf(random, key, caller.lineage);
      const call = { clientRequestId: key, sent: sentOf(request), read: () => ({ kind: "read", request }) as const };
      const waits = random.chance(0.4);
      const sent: Sent = { ...NO_SENT, tool: "delegate_task", key, waitMs: waits ? waitMs : 0 };
      const answer = await net.send(from, sent, (engine, signal) =>
        engine.delegate(call, caller, waits ? hold(signal) : { ...hold(signal), waitMs: 0 }),
      );
      if (answer?.kind === "task" && answer.created === "new") recorder.count("grandchildren");
      return;
    }
    case "wait": {
      const sent: Sent = { ...NO_SENT, tool: "task_wait", waitMs, until: "any" };
      const request = { taskIds: null, until: "any", after: null } as const;
      await net.send(from, sent, (engine, signal) => engine.wait(request, caller, hold(signal)));
      return;
    }
    case "status": {
      // Its own task it may look at; of the others only what is below it.
      const other = (await everyTask(store)).find(({ origin }) => origin.caller === caller.name);
      const taskId = random.chance(0.5) ? caller.lineage.taskId : (other?.handle.taskId ?? caller.lineage.taskId);
      const sent: Sent = { ...NO_SENT, about: [taskId] };
      await net.send(from, sent, (engine) => engine.status({ taskId, clientRequestId: null }, caller));
      return;
    }
    case "cancel": {
      if (below.length === 0) return;
      const { taskId } = random.pick(below).handle;
      const sent: Sent = { ...NO_SENT, tool: "task_cancel", about: [taskId] };
      recorder.count("cancels");
      await net.send(from, sent, (engine) => engine.cancel({ taskId, reason: null, abandon: false }, caller));
    }
  }
}

async function everyTask(store: SimStore): Promise<readonly Task[]> {
  return (await store.truth.list(EVERYTHING)).tasks;
}

const EVERYTHING = {
  caller: null,
  below: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  idPrefix: null,
  limit: 1_000,
  before: null,
} as const;

function workOf(random: Random, key: string, { taskId }: Lineage): DelegateRequest {
  return {
    // The same key always names the same work of this parent.
    task: `Do part ${key} for ${taskId}.`,
    title: null,
    role: "general",
    agent: null,
    model: null,
    options: {},
    cwd: PATHS[key.length % PATHS.length] ?? "/w",
    access: random.chance(0.5) ? "read" : "write",
    isolation: "auto",
    permissions: null,
    maxActiveMs: null,
    resultSchema: null,
    onBusy: "queue",
    background: "reap",
    labels: [],
  };
}
