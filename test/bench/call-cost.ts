/**
 * What a call costs the daemon, as a multiple of what the SDK's echo costs.
 *
 * One place for running children, taken by a child that never ends: every further delegation is accepted, committed and
 * queued, and nothing is started.
 */

import { type Contender, interleave, medianRatio, seriesOf } from "./interleave.ts";
import { type Figure, us } from "./figures.ts";
import { openLoad } from "./load.ts";
import { delegateMany, delegation, folderOf, oneOf, type Scene } from "./scene.ts";
import { median } from "./statistics.ts";
import { startDaemon, startEcho } from "./subjects.ts";
import { ERAS, type Era, openWire } from "./wire.ts";

const STATUS_TARGET = 1.6;
const DELEGATE_TARGET = 3;
/** Tasks that are asked about: the running one and some that queue. */
const ASKED_ABOUT = 20;

export async function measureCallCost(scene: Scene): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  for (const era of ERAS) figures.push(...(await costIn(era, scene)));
  return figures;
}

async function costIn(era: Era, scene: Scene): Promise<readonly Figure[]> {
  const { plan, profileTo } = scene;
  const folder = folderOf(scene, `cost-${era}`);
  await using echo = await startEcho(profileTo);
  await using daemon = await startDaemon({ folder, concurrentChildren: 1, profileTo });
  await using echoLoad = openLoad(echo.mcpUrl);
  await using daemonLoad = openLoad(daemon.mcpUrl);
  const echoWire = await openWire(echo, era);
  const wire = await openWire(daemon, era);
  const tasks = await delegateMany(daemonLoad, wire, ASKED_ABOUT);

  const contenders: readonly Contender[] = [
    {
      name: "echo",
      server: echo,
      warmUp: plan.readsToWarmUp,
      count: plan.readsPerRound,
      drive: (count) =>
        echoLoad.drive(count, (n) => echoWire.call("echo", { taskId: oneOf(tasks, n) }), '"structuredContent"'),
    },
    {
      name: "task_status",
      server: daemon,
      warmUp: plan.readsToWarmUp,
      count: plan.readsPerRound,
      drive: (count) =>
        daemonLoad.drive(count, (n) => wire.call("task_status", { taskId: oneOf(tasks, n) }), '"status":"working"'),
    },
    {
      name: "delegate_task",
      server: daemon,
      warmUp: plan.delegationsToWarmUp,
      count: plan.delegationsPerRound,
      drive: (count) => daemonLoad.drive(count, () => delegation(wire), '"created":"new"'),
    },
  ];
  const series = await interleave(contenders, plan.rounds);
  const echoUs = seriesOf(series, "echo");
  return [
    { name: "task_status", target: STATUS_TARGET },
    { name: "delegate_task", target: DELEGATE_TARGET },
  ].map(({ name, target }) => ({
    name: `CPU of ${name}, ${era} era, of the echo's`,
    target,
    measured: medianRatio(seriesOf(series, name), echoUs),
    unit: "×",
    detail: `${us(median(seriesOf(series, name)))} to ${us(median(echoUs))}`,
  }));
}
