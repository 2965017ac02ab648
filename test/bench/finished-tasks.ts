/**
 * What 100,000 finished tasks change: one daemon with a page of them and one with all of them, asked the same in turns.
 *
 * Beside none there would be nothing to list and nothing to wait for, so the small one has a hundred: its answers are as
 * long as the other's.
 */

import { type Figure, us } from "./figures.ts";
import { type Filled, fillFinished } from "./fill.ts";
import { type Contender, interleave, medianRatio, seriesOf } from "./interleave.ts";
import { type Load, openLoad } from "./load.ts";
import { delegateMany, delegation, folderOf, oneOf, type Plan, type Scene } from "./scene.ts";
import { median } from "./statistics.ts";
import { startDaemon, type Subject, timeStart } from "./subjects.ts";
import { type Call, openWire, type Wire } from "./wire.ts";

const RATIO_TARGET = 1.5;
/** How long it takes must not tell whether a task is there. */
const FOREIGN_RATIO_TARGET = 1.2;
const START_TARGET_MS = 1_000;
const FEW = 100;
const FEW_UNREAD = 20;
/** One in so many of the finished tasks is another caller's and unread. */
const UNREAD_SHARE = 10;

type Side = { readonly folder: string; readonly filled: Filled };

export async function measureFinishedTasks(scene: Scene): Promise<readonly Figure[]> {
  const { plan } = scene;
  const unread = Math.floor(plan.finished / UNREAD_SHARE);
  const fewFolder = folderOf(scene, "few");
  const manyFolder = folderOf(scene, "many");
  const few: Side = { folder: fewFolder, filled: await fillFinished(fewFolder, FEW, FEW_UNREAD) };
  const many: Side = { folder: manyFolder, filled: await fillFinished(manyFolder, plan.finished - unread, unread) };
  const starts = await measureStarts(few, many, scene);
  return [...starts, ...(await measureCalls(few, many, scene))];
}

async function measureStarts(few: Side, many: Side, scene: Scene): Promise<readonly Figure[]> {
  const options = { concurrentChildren: 1, profileTo: null };
  const fewMs: number[] = [];
  const manyMs: number[] = [];
  const cpuMs: number[] = [];
  for (let start = 0; start < scene.plan.starts; start += 1) {
    fewMs.push((await timeStart({ folder: few.folder, ...options })).readyAfterMs);
    const { readyAfterMs, cpuToReadyMs } = await timeStart({ folder: many.folder, ...options });
    manyMs.push(readyAfterMs);
    if (cpuToReadyMs !== null) cpuMs.push(cpuToReadyMs);
  }
  const finished = scene.plan.finished.toLocaleString("en");
  const ratio = median(manyMs.map((ms, start) => ms / (fewMs[start] ?? Number.NaN)));
  const cpu = cpuMs.length === 0 ? "" : `; ${median(cpuMs).toFixed(0)} ms of CPU`;
  const detail = `${median(manyMs).toFixed(0)} to ${median(fewMs).toFixed(0)} ms, median of ${manyMs.length}`;
  return [
    {
      name: `start to ready with ${finished} finished tasks`,
      target: START_TARGET_MS,
      measured: median(manyMs),
      unit: "ms",
      detail: `median of ${manyMs.length}${cpu}`,
    },
    { name: `start, ${finished} finished tasks to few`, target: RATIO_TARGET, measured: ratio, unit: "×", detail },
  ];
}

async function measureCalls(few: Side, many: Side, scene: Scene): Promise<readonly Figure[]> {
  const { plan, profileTo } = scene;
  await using fewDaemon = await startDaemon({ folder: few.folder, concurrentChildren: 1, profileTo });
  await using manyDaemon = await startDaemon({ folder: many.folder, concurrentChildren: 1, profileTo });
  await using fewLoad = openLoad(fewDaemon.mcpUrl);
  await using manyLoad = openLoad(manyDaemon.mcpUrl);
  const fewCalls = await callsOf("few", { ...few.filled, daemon: fewDaemon, load: fewLoad }, plan);
  const manyCalls = await callsOf("many", { ...many.filled, daemon: manyDaemon, load: manyLoad }, plan);
  const inTurns = fewCalls.flatMap((contender, at) => [contender, oneOf(manyCalls, at)]);
  const series = await interleave(inTurns, plan.rounds);
  const finished = plan.finished.toLocaleString("en");
  return OPERATIONS.map((operation) => {
    const fewUs = seriesOf(series, `${operation} few`);
    const manyUs = seriesOf(series, `${operation} many`);
    return {
      name: `CPU of ${operation}, ${finished} finished tasks to few`,
      target: operation === FOREIGN ? FOREIGN_RATIO_TARGET : RATIO_TARGET,
      measured: medianRatio(manyUs, fewUs),
      unit: "×",
      detail: `${us(median(manyUs))} to ${us(median(fewUs))}`,
    };
  });
}

const FOREIGN = "foreign look-up";
const OPERATIONS = [
  "task_status",
  "task_list",
  "task_wait (peek)",
  "unread look-up",
  FOREIGN,
  "delegate_task",
] as const;

type Operation = (typeof OPERATIONS)[number];

type Asked = Filled & { readonly daemon: Subject; readonly load: Load };

async function callsOf(side: string, asked: Asked, plan: Plan): Promise<readonly Contender[]> {
  const { daemon, load, read, foreign, readerToken } = asked;
  const wire = await openWire(daemon, "legacy");
  const readerWire = await openWire({ mcpUrl: daemon.mcpUrl, token: readerToken }, "legacy");
  // The only place is taken; what is delegated from here on queues.
  await delegateMany(load, wire, 1);
  return OPERATIONS.map((operation) => ({
    name: `${operation} ${side}`,
    server: daemon,
    ...(operation === "delegate_task"
      ? { warmUp: plan.delegationsToWarmUp, count: plan.delegationsPerRound }
      : { warmUp: Math.ceil(plan.readsToWarmUp / 4), count: Math.ceil(plan.readsPerRound / 2) }),
    drive: (count) => drive(operation, count, { load, read, foreign, wire, readerWire }),
  }));
}

type Callers = Pick<Asked, "load" | "read" | "foreign"> & { readonly wire: Wire; readonly readerWire: Wire };

function drive(operation: Operation, count: number, { load, read, foreign, wire, readerWire }: Callers): Promise<void> {
  // Far apart, so that neighbours in the database are not asked for one after another.
  const anyOf = (n: number): string => oneOf(read, n * STRIDE);
  switch (operation) {
    case "task_status":
      return load.drive(count, (n) => wire.call("task_status", { taskId: anyOf(n) }), '"status":"completed"');
    case "task_list":
      return load.drive(count, () => wire.call("task_list", {}), '"nextCursor"');
    case "task_wait (peek)": {
      const peek = (n: number): Call => wire.call("task_wait", { taskIds: [anyOf(n)], waitMs: 0 });
      return load.drive(count, peek, '"status":"completed"');
    }
    case "unread look-up":
      return load.drive(count, () => readerWire.call("task_list", { limit: 1 }), '"pendingCount"');
    case FOREIGN: {
      const look = (n: number): Call => wire.call("thread_read", { taskId: oneOf(foreign, n * STRIDE) });
      return load.drive(count, look, '"code":"unknown_task"');
    }
    case "delegate_task":
      return load.drive(count, () => delegation(wire), '"created":"new"');
  }
}

const STRIDE = 7_919;
