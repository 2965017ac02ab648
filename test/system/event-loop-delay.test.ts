/** Real time, since that is what is measured: the loop turns for a while, is blocked, and turns again. */

import { describe, expect, it } from "vitest";
import { watchEventLoop } from "../../src/system/event-loop-delay.ts";

/** Keeps the event loop turning. */
async function turnFor(ms: number): Promise<void> {
  for (const untilMs = performance.now() + ms; performance.now() < untilMs; )
    await new Promise((resolve) => setImmediate(resolve));
}

function blockFor(ms: number): void {
  for (const untilMs = performance.now() + ms; performance.now() < untilMs; );
}

describe("event-loop delay", () => {
  it("shows a block in full, once, and nothing before there was a look (P15)", async () => {
    using watch = watchEventLoop();
    expect(watch.take()).toEqual({ meanMs: 0, p99Ms: 0, maxMs: 0 });
    await turnFor(100);
    blockFor(400);
    await turnFor(100);
    const blocked = watch.take();
    expect(blocked.maxMs).toBeGreaterThan(300);
    expect(blocked.p99Ms).toBeGreaterThan(300);
    expect(blocked.meanMs).toBeLessThan(blocked.maxMs);
    expect(watch.take()).toEqual({ meanMs: 0, p99Ms: 0, maxMs: 0 });
  });

  it("is next to nothing on a loop that is free", async () => {
    using watch = watchEventLoop();
    const means: number[] = [];
    for (let look = 0; look < 3; look++) {
      await turnFor(150);
      means.push(watch.take().meanMs);
    }
    // The interval between two samples is 20 ms and no delay.
    expect(Math.min(...means)).toBeLessThan(10);
  });
});
