/**
 * From a child's end to its caller's answer: the exit noticed by the guard, the output read to its end, the proof that
 * nothing of it is left, the commit, the wake.
 */

import type { Figure } from "./figures.ts";
import { openLoad } from "./load.ts";
import { nowMs } from "./now.ts";
import { delegation, folderOf, type Scene } from "./scene.ts";
import { percentile } from "./statistics.ts";
import { startDaemon } from "./subjects.ts";
import { openWire, structuredContentOf } from "./wire.ts";
import { z } from "zod";

const TARGET_MS = 1_000;

const endedSchema = z.object({
  status: z.literal("completed"),
  stop: z.object({ proof: z.string() }),
  fromChild: z.object({ result: z.object({ text: z.string() }) }),
});

export async function measureChildEnd(scene: Scene): Promise<readonly Figure[]> {
  const folder = folderOf(scene, "child-end");
  await using daemon = await startDaemon({ folder, concurrentChildren: 2, profileTo: scene.profileTo });
  await using load = openLoad(daemon.mcpUrl);
  const wire = await openWire(daemon, "legacy");
  const latencies: number[] = [];
  let proof = "";
  for (let run = 0; run < scene.plan.childRuns; run += 1) {
    const text = await load.send(delegation(wire, "timed", "wait"));
    const answeredMs = nowMs();
    const ended = endedSchema.parse(structuredContentOf(text));
    latencies.push(answeredMs - Number(ended.fromChild.result.text));
    proof = ended.stop.proof;
  }
  return [
    {
      name: "a child's end to its caller's answer, p95",
      target: TARGET_MS,
      measured: percentile(latencies, 0.95),
      unit: "ms",
      detail: `${latencies.length} runs, half within ${percentile(latencies, 0.5).toFixed(0)} ms; proof ${proof}`,
    },
  ];
}
