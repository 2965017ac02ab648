/**
 * What a page of a very long thread takes, wherever it lies: `thread_read`, one call after the other, to the whole answer.
 */

import type { Figure } from "./figures.ts";
import { openLoad } from "./load.ts";
import { ENTRIES, fillLongThread, NEEDLE, SIGNS } from "./long-thread.ts";
import { nowMs } from "./now.ts";
import { folderOf, type Scene } from "./scene.ts";
import { percentile } from "./statistics.ts";
import { startDaemon } from "./subjects.ts";
import { openWire } from "./wire.ts";

const PAGE_TARGET_MS = 50;
/** Far apart, so that neighbours are not asked for one after another. */
const STRIDE = 7_919;

type Kind = {
  readonly name: string;
  readonly args: (n: number) => Readonly<Record<string, unknown>>;
  readonly expected: string;
};

const anyEntry = (n: number): string => `m2.${(n * STRIDE) % ENTRIES}.0`;
const anyEvent = (n: number): string => `e${(n * STRIDE) % SIGNS}.0.0`;

const KINDS: readonly Kind[] = [
  { name: "conversation", args: (n) => ({ cursor: anyEntry(n) }), expected: '"view":"messages"' },
  { name: "found", args: (n) => ({ cursor: anyEntry(n), find: NEEDLE.toUpperCase() }), expected: '"say"' },
  { name: "not found", args: (n) => ({ cursor: anyEntry(n), find: "no such words" }), expected: '"say"' },
  { name: "events", args: (n) => ({ view: "events", cursor: anyEvent(n) }), expected: '"view":"events"' },
  { name: "events found", args: (n) => ({ view: "events", cursor: anyEvent(n), find: "settled" }), expected: '"say"' },
];

export async function measureThreads(scene: Scene): Promise<readonly Figure[]> {
  const { plan, profileTo } = scene;
  const folder = folderOf(scene, "thread");
  const taskId = await fillLongThread(folder);
  await using daemon = await startDaemon({ folder, concurrentChildren: 1, profileTo });
  await using load = openLoad(daemon.mcpUrl);
  const wire = await openWire(daemon, "legacy");
  const figures: Figure[] = [];
  for (const { name, args, expected } of KINDS) {
    const took: number[] = [];
    for (let n = 0; n < plan.pages; n += 1) {
      const call = wire.call("thread_read", { taskId, ...args(n) });
      const sinceMs = nowMs();
      const answer = await load.send(call);
      took.push(nowMs() - sinceMs);
      if (!answer.includes(expected) || answer.includes('"error"')) throw new Error(answer.slice(0, 500));
    }
    figures.push({
      name: `a page of a 50 MB transcript, ${name}, p95`,
      target: PAGE_TARGET_MS,
      measured: percentile(took, 0.95),
      unit: "ms",
      detail: `half within ${percentile(took, 0.5).toFixed(1)} ms, all within ${Math.max(...took).toFixed(0)} ms`,
    });
  }
  return figures;
}
