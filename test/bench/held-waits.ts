/**
 * Thousands of held waits: what each costs in memory beside a held call of the SDK's server, and how soon they are woken.
 *
 * Each wait has a task of its own; a task is ended by cancelling it while it queues, which is one commit. The time of that
 * commit is noted inside the daemon, so that what is measured is the way from the commit to the answer and nothing else.
 */

import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { Figure } from "./figures.ts";
import { type HeldCall, holdCall } from "./held-call.ts";
import { type Load, openLoad } from "./load.ts";
import { nowMs } from "./now.ts";
import { delegateMany, folderOf, oneOf, type Scene } from "./scene.ts";
import type { Memory } from "./server-process.ts";
import { percentile } from "./statistics.ts";
import { startDaemon, startEcho, type Subject } from "./subjects.ts";
import { type Call, ERAS, type Era, openWire, structuredContentOf, type Wire } from "./wire.ts";

const MEMORY_TARGET_KB = 15;
const WAKE_ONE_TARGET_MS = 25;
const WAKE_ALL_TARGET_MS = 1_500;
/** Held and let go before anything is measured, so that code and pools are as large as they get. */
const WARM_UP = 300;
const OPENED_AT_A_TIME = 200;
const PAUSE_MS = 25;
const HOLD_MS = 120_000;
const HELD_WITHIN_MS = 20_000;

export async function measureHeldWaits(scene: Scene): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const era of ERAS) {
    const echo = await heldByEcho(era, scene);
    const daemon = await heldByDaemon(era, scene);
    figures.push(
      memoryFigure(era, "RSS", daemon.rssKb, echo.rssKb),
      memoryFigure(era, "heap", daemon.heapKb, echo.heapKb),
      ...daemon.wakes,
    );
  }
  return figures;
}

type PerCall = { readonly rssKb: number; readonly heapKb: number };

function memoryFigure(era: Era, what: string, daemonKb: number, echoKb: number): Figure {
  return {
    name: `${what} of a held task_wait, ${era} era, over a held echo`,
    target: MEMORY_TARGET_KB,
    measured: daemonKb - echoKb,
    unit: "KB",
    detail: `${daemonKb.toFixed(1)} to ${echoKb.toFixed(1)} KB`,
  };
}

async function heldByEcho(era: Era, scene: Scene): Promise<PerCall> {
  await using echo = await startEcho();
  const wire = await openWire(echo, era);
  const warmUp = await openAll(echo.mcpUrl, WARM_UP, () => wire.call("hold", { holdMs: 1_500 }));
  await Promise.all(warmUp.map((call) => call.answeredMs));
  release(warmUp);
  const before = await echo.memory();
  const calls = await openAll(echo.mcpUrl, scene.plan.held, () => wire.call("hold", { holdMs: HOLD_MS }));
  await untilHeld(echo.mcpUrl, scene.plan.held);
  const perCall = growth(before, await echo.memory(), calls.length);
  release(calls);
  return perCall;
}

async function heldByDaemon(era: Era, scene: Scene): Promise<PerCall & { readonly wakes: readonly Figure[] }> {
  const { plan, profileTo } = scene;
  const folder = folderOf(scene, `held-${era}`);
  await using daemon = await startDaemon({ folder, concurrentChildren: 1, profileTo });
  await using load = openLoad(daemon.mcpUrl);
  const wire = await openWire(daemon, era);
  const tasks = (await delegateMany(load, wire, plan.held + 1)).slice(1);
  const waitFor = (taskId: string, waitMs = HOLD_MS): Call => wire.call("task_wait", { taskIds: [taskId], waitMs });
  const warmUp = await openAll(daemon.mcpUrl, WARM_UP, (n) => waitFor(oneOf(tasks, n), 1_500));
  await Promise.all(warmUp.map((call) => call.answeredMs));
  release(warmUp);

  const before = await daemon.memory();
  const calls = await openAll(daemon.mcpUrl, plan.held, (n) => waitFor(oneOf(tasks, n)));
  await heldByWord(calls, load, wire, oneOf(tasks, 0));
  const perCall = growth(before, await daemon.memory(), calls.length);
  const oneByOne = await wakeOneByOne({ daemon, load, wire }, tasks.slice(0, plan.wakes), calls);
  release(calls);
  const allAtOnce: number[] = [];
  for (const taskId of tasks.slice(-plan.wakesOfAll)) {
    const together = await openAll(daemon.mcpUrl, plan.held, () => waitFor(taskId));
    await heldByWord(together, load, wire, taskId);
    allAtOnce.push(await wake({ daemon, load, wire }, taskId, together));
    release(together);
  }
  return { ...perCall, wakes: wakeFigures(era, plan.held, oneByOne, allAtOnce) };
}

function wakeFigures(
  era: Era,
  held: number,
  oneByOne: readonly number[],
  allAtOnce: readonly number[],
): readonly Figure[] {
  const half = percentile(oneByOne, 0.5).toFixed(1);
  return [
    {
      name: `waking 1 of ${held} waits, ${era} era, commit to answer, p99`,
      target: WAKE_ONE_TARGET_MS,
      measured: percentile(oneByOne, 0.99),
      unit: "ms",
      detail: `${oneByOne.length} wakes, half within ${half} ms`,
    },
    {
      name: `waking all ${held} waits for one task, ${era} era`,
      target: WAKE_ALL_TARGET_MS,
      measured: percentile(allAtOnce, 0.5),
      unit: "ms",
      detail: `commit to the last answer, median of ${allAtOnce.length}`,
    },
  ];
}

type Woken = { readonly daemon: Subject; readonly load: Load; readonly wire: Wire };

async function wakeOneByOne(
  woken: Woken,
  tasks: readonly string[],
  calls: readonly HeldCall[],
): Promise<readonly number[]> {
  const latencies: number[] = [];
  for (const [n, taskId] of tasks.entries()) {
    latencies.push(await wake(woken, taskId, [oneOf(calls, n)]));
    // Read, so that the next answer has nothing to announce.
    await woken.load.send(woken.wire.call("task_ack", { taskId, settlement: 1 }));
    // Spread over seconds, so that what the daemon does now and then falls between them as it does for callers.
    await delay(PAUSE_MS);
  }
  return latencies;
}

/** Ends a task; how long after the commit the last of its waits was answered. */
async function wake({ daemon, load, wire }: Woken, taskId: string, calls: readonly HeldCall[]): Promise<number> {
  await daemon.commitsMs();
  const sentMs = nowMs();
  const cancelled = load.send(wire.call("task_cancel", { taskId }));
  const answeredMs = Math.max(...(await Promise.all(calls.map((call) => call.answeredMs))));
  await cancelled;
  const committedMs = (await daemon.commitsMs()).find((commitMs) => commitMs > sentMs);
  if (committedMs === undefined) throw new Error("the cancellation was not committed");
  return answeredMs - committedMs;
}

/** A few at a time, because a listening socket takes only so many that it has not looked at. */
async function openAll(url: URL, count: number, callAt: (n: number) => Call): Promise<readonly HeldCall[]> {
  const calls: HeldCall[] = [];
  while (calls.length < count) {
    const wanted = Math.min(OPENED_AT_A_TIME, count - calls.length);
    const opened = Array.from({ length: wanted }, (_, n) => holdCall(url, callAt(calls.length + n)));
    await Promise.all(opened.map((call) => call.connected));
    calls.push(...opened);
  }
  return calls;
}

function release(calls: readonly HeldCall[]): void {
  for (const call of calls) call[Symbol.dispose]();
}

/** The stream of a held call is open; a call that was sent after that is answered, so the waits before it are held. */
async function heldByWord(calls: readonly HeldCall[], load: Load, wire: Wire, taskId: string): Promise<void> {
  await Promise.all(calls.map((call) => call.opened));
  structuredContentOf(await load.send(wire.call("task_status", { taskId })));
}

const heldSchema = z.object({ held: z.number() });

/** The echo sends nothing before its answer, but counts. */
async function untilHeld(url: URL, count: number): Promise<void> {
  for (const startedMs = nowMs(); nowMs() - startedMs < HELD_WITHIN_MS; await delay(50)) {
    const response = await fetch(new URL("/held", url));
    if (heldSchema.parse(await response.json()).held >= count) return;
  }
  throw new Error(`not ${count} calls held within ${HELD_WITHIN_MS} ms`);
}

function growth(before: Memory, after: Memory, count: number): PerCall {
  return {
    rssKb: (after.rssBytes - before.rssBytes) / count / 1_024,
    heapKb: (after.heapBytes - before.heapBytes) / count / 1_024,
  };
}
