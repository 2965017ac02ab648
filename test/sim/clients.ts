/**
 * Harnesses and people: they delegate, wait, look, acknowledge, go on, cancel, lose answers and come back, also days later.
 *
 * Invariant: a client knows only what it was answered; what it retries, it retries under the same key with the same words.
 */

import { packAfter } from "../../src/core/after.ts";
import type { Caller } from "../../src/core/caller.ts";
import type { TaskView } from "../../src/core/describe.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Answer, ContinueRequest, DelegateRequest, Hold } from "../../src/ports/engine.ts";
import type { Json } from "../../src/core/receipt.ts";
import type { Random } from "../support/sim-random.ts";
import { viewsOf } from "./answers.ts";
import { sleep } from "./life.ts";
import type { Net, Sender, Sent } from "./net.ts";
import type { Recorder } from "./recorder.ts";

/** A piece of work under a key; `taskId` once an answer told it. */
export type Work = {
  readonly key: string;
  readonly request: DelegateRequest;
  taskId: string | null;
};

/** What the clients of one caller share: they are windows of one person. */
export type Desk = {
  readonly name: string;
  readonly works: Work[];
  readonly continued: { readonly taskId: string; readonly key: string; readonly request: ContinueRequest }[];
  /** The newest view of each task that anybody of them was shown. */
  readonly views: Map<string, TaskView>;
};

export type ClientWorld = {
  readonly clock: Clock;
  readonly random: Random;
  readonly recorder: Recorder;
  readonly net: Net;
  readonly desk: Desk;
  readonly name: string;
  readonly caller: Caller;
  readonly others: readonly Desk[];
  readonly temper: ClientTemper;
  /** True until the storm is over. */
  readonly stormy: () => boolean;
};

export type ClientTemper = {
  readonly thinkMs: number;
  readonly worksMax: number;
  readonly waitMs: number;
  readonly cancels: number;
  readonly continues: number;
  readonly busy: number;
};

export const NO_SENT: Sent = {
  tool: "task_status",
  key: null,
  about: null,
  waitMs: 0,
  until: null,
  after: null,
  settlement: null,
};

export async function runClient(world: ClientWorld): Promise<void> {
  const client = createClient(world);
  while (world.stormy()) {
    await client.act();
    await sleep(world.clock, world.random.int(1, world.temper.thinkMs));
  }
}

/** The last words of a caller: everything is listed, so that whatever it has to be told is told. */
export async function listAtRest(world: ClientWorld): Promise<void> {
  await createClient(world).list(true);
}

function createClient(world: ClientWorld) {
  const { clock, random, recorder, net, desk, caller, temper } = world;
  const from: Sender = { name: world.name, caller, atRest: false };
  const seen = new Map<string, TaskView>();
  const hold = (waitMs: number, signal: AbortSignal): Hold => ({ waitMs, signal, onHeld: null });

  /** The tasks that an answer showed; none if it was lost. */
  function learn(answer: Answer | null): readonly TaskView[] {
    if (answer === null) return [];
    const views = viewsOf(answer);
    for (const view of views) {
      const known = desk.views.get(view.handle.taskId);
      if (known === undefined || known.version <= view.version) desk.views.set(view.handle.taskId, view);
      seen.set(view.handle.taskId, view);
    }
    if (answer.kind === "refusal") {
      recorder.count(answer.rejection.code === "idempotency_conflict" ? "conflicts" : "refusals");
    }
    if (answer.kind === "task" && answer.created === "replayed") recorder.count("replays");
    return views;
  }

  async function delegate(work: Work): Promise<void> {
    const waitMs = random.chance(0.3) ? random.int(1_000, temper.waitMs) : 0;
    const { request, key } = work;
    const call = { clientRequestId: key, sent: sentOf(request), read: () => ({ kind: "read", request }) as const };
    const sent: Sent = { ...NO_SENT, tool: "delegate_task", key, waitMs };
    const [view] = learn(
      await net.send(from, sent, (engine, signal) => engine.delegate(call, caller, hold(waitMs, signal))),
    );
    if (view !== undefined) work.taskId = view.handle.taskId;
  }

  async function begin(): Promise<void> {
    if (desk.works.length >= temper.worksMax) return again();
    const work = workOf(random, desk, temper);
    desk.works.push(work);
    await Promise.all(Array.from({ length: random.chance(0.2) ? random.int(2, 4) : 1 }, () => delegate(work)));
  }

  /** An earlier key once more: after a lost answer, by mistake, or with other words under it. */
  async function again(): Promise<void> {
    if (desk.works.length === 0) return;
    const open = desk.works.filter((work) => work.taskId === null);
    const work = random.pick(open.length > 0 && random.chance(0.7) ? open : desk.works);
    if (!random.chance(0.1)) return delegate(work);
    const other: Work = {
      key: work.key,
      request: { ...work.request, task: `${work.request.task} else` },
      taskId: null,
    };
    await delegate(other);
  }

  async function wait(): Promise<void> {
    const views = shuffled(random, [...desk.views.values()]).slice(0, random.int(1, 4));
    const all = views.length === 0 || random.chance(0.15);
    const about = all
      ? null
      : views.map(({ handle }) => random.pick([handle.taskId, handle.childThreadId, handle.nodeId]));
    const told = views.flatMap(({ handle: { taskId } }) => seen.get(taskId) ?? []);
    const seenNow = told.map(({ handle, news }) => ({ taskId: handle.taskId, news, steps: 0 }));
    const after = random.chance(0.6) && !all ? packAfter(seenNow, random.pick(["a1", "b2", "c3"])) : null;
    const waitMs = random.chance(0.1) ? 0 : random.int(500, temper.waitMs);
    const until = random.chance(0.7) ? "any" : "all";
    const sent: Sent = { ...NO_SENT, tool: "task_wait", about, waitMs, until, after };
    const request = { taskIds: about, until, after } as const;
    learn(await net.send(from, sent, (engine, signal) => engine.wait(request, caller, hold(waitMs, signal))));
  }

  async function status(): Promise<void> {
    const foreign = world.others.flatMap((other) => other.works.flatMap(({ taskId }) => taskId ?? []));
    const [own] = shuffled(random, [...desk.views.keys()]);
    const taskId = foreign.length > 0 && random.chance(0.1) ? random.pick(foreign) : (own ?? null);
    const work = random.chance(0.4) && desk.works.length > 0 ? random.pick(desk.works) : null;
    const request = work === null ? { taskId, clientRequestId: null } : { taskId: null, clientRequestId: work.key };
    if (request.taskId === null && request.clientRequestId === null) return;
    const about = request.taskId === null ? null : [request.taskId];
    const sent: Sent = { ...NO_SENT, key: request.clientRequestId, about };
    const [view] = learn(await net.send(from, sent, (engine) => engine.status(request, caller)));
    if (view !== undefined && work !== null) work.taskId = view.handle.taskId;
  }

  async function list(atRest: boolean): Promise<void> {
    const request = {
      open: !atRest && random.chance(0.3),
      unread: !atRest && random.chance(0.3),
      conversation: "all",
      status: null,
      parentTaskId: null,
      idPrefix: null,
      limit: atRest ? 1 : random.int(1, 20),
      cursor: null,
    } as const;
    const sent: Sent = { ...NO_SENT, tool: "task_list" };
    learn(await net.send({ ...from, atRest }, sent, (engine) => engine.list(request, caller)));
  }

  async function acknowledge(): Promise<void> {
    const ended = [...desk.views.values()].filter((view) => view.settlements > 0);
    if (ended.length === 0) return;
    const view = random.pick(ended);
    const { taskId } = view.handle;
    const settlement = random.chance(0.9) ? view.settlements : view.settlements + 1;
    const sent: Sent = { ...NO_SENT, tool: "task_ack", about: [taskId], settlement };
    recorder.count("acknowledged");
    learn(await net.send(from, sent, (engine) => engine.acknowledge({ taskId, settlement }, caller)));
  }

  async function cancel(): Promise<void> {
    const [view] = shuffled(random, [...desk.views.values()]);
    if (view !== undefined) await stop(view, false);
  }

  /** Only a person gives up on processes, and only on ones that were named. */
  async function abandon(): Promise<void> {
    const view = [...desk.views.values()].find(({ survivors }) => survivors.length > 0);
    if (view !== undefined) await stop(view, true);
  }

  async function stop({ handle: { taskId } }: TaskView, abandon: boolean): Promise<void> {
    const sent: Sent = { ...NO_SENT, tool: "task_cancel", about: [taskId] };
    if (!abandon) recorder.count("cancels");
    learn(await net.send(from, sent, (engine) => engine.cancel({ taskId, reason: null, abandon }, caller)));
  }

  async function goOn(): Promise<void> {
    const [view] = shuffled(random, [...desk.views.values()]);
    if (view === undefined) return;
    if (desk.continued.length > 0 && random.chance(0.3)) return send(random.pick(desk.continued));
    // Two windows may go on with the same result at the same moment.
    const count = random.chance(0.2) ? 2 : 1;
    const messages = Array.from({ length: count }, (_, index) => continuationOf(view, desk.continued.length + index));
    desk.continued.push(...messages);
    await Promise.all(messages.map(send));
  }

  async function send({ taskId, key, request }: Desk["continued"][number]): Promise<void> {
    const waitMs = random.chance(0.3) ? random.int(1_000, temper.waitMs) : 0;
    const sent: Sent = { ...NO_SENT, tool: "task_continue", key, about: [taskId], waitMs };
    const call = { clientRequestId: key, sent: { ...request }, read: () => ({ kind: "read", request }) as const };
    learn(await net.send(from, sent, (engine, signal) => engine.continue(call, caller, hold(waitMs, signal))));
  }

  function continuationOf(view: TaskView, number: number): Desk["continued"][number] {
    const { taskId } = view.handle;
    const afterSettlement = random.chance(0.7) ? view.settlements : null;
    const agent = random.chance(0.1) ? random.pick(["alpha", "beta"]) : null;
    const key = `go-on-${desk.name}-${number}-${random.int(0, 9)}`;
    const message = `Go on, ${number} (${key}).`;
    return { taskId, key, request: { taskId, message, afterSettlement, agent, model: null, options: {} } };
  }

  async function forget(): Promise<void> {
    seen.clear();
    await sleep(clock, random.int(0, 1_000));
  }

  return {
    list,
    async act(): Promise<void> {
      const act = random.weighted<() => Promise<void>>([
        [caller.kind === "person" ? 0.3 : 3, begin],
        [1.5, again],
        [6, wait],
        [1.5, status],
        [0.7, () => list(false)],
        [1.2, acknowledge],
        [temper.cancels * (caller.kind === "person" ? 2 : 1), cancel],
        [caller.kind === "person" ? 2 : 0.1, abandon],
        [temper.continues, goOn],
        [0.2, forget],
      ]);
      await act();
    },
  };
}

export const PATHS = ["/w/shop", "/w/shop/web", "/w/pay", "/w/docs"];

function workOf(random: Random, desk: Desk, temper: ClientTemper): Work {
  const number = desk.works.length + 1;
  const agent = random.weighted([
    [6, null],
    [2, "beta"],
    [1, "gamma"],
    [0.2, "nobody"],
  ]);
  const access = random.weighted<DelegateRequest["access"]>([
    [5, "write"],
    [3, "read"],
    [1, null],
  ]);
  const missing = random.chance(0.03);
  return {
    // Two callers use the same keys, as two people would.
    key: `work-${number}`,
    taskId: null,
    request: {
      task: `Do piece ${number} of ${desk.name}.`,
      title: null,
      role: "general",
      agent,
      model: null,
      options: {},
      cwd: missing ? "/elsewhere" : random.pick(PATHS),
      access,
      isolation: "auto",
      permissions: null,
      maxActiveMs: null,
      resultSchema: null,
      onBusy: random.chance(temper.busy) ? "refuse" : "queue",
      background: random.chance(0.3) ? "keep" : "reap",
      labels: [],
    },
  };
}

export function sentOf({ task, cwd, agent, access }: DelegateRequest): { readonly [field: string]: Json } {
  return { task, cwd, agent, access };
}

function shuffled<T>(random: Random, items: readonly T[]): readonly T[] {
  return items
    .map((item) => ({ item, at: random.fraction() }))
    .sort((one, other) => one.at - other.at)
    .map(({ item }) => item);
}
