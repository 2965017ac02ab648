import { describe, expect, it } from "vitest";
import { createUlidSource } from "../../src/system/ulid-source.ts";
import { createWallClock } from "../../src/system/wall-clock.ts";
import { createStepClock } from "../support/step-clock.ts";

describe("wall clock", () => {
  it("shows the machine's wall time and running time that never goes back", () => {
    const clock = createWallClock();
    expect(Math.abs(clock.wallMs() - Date.now())).toBeLessThan(50);
    const readings = Array.from({ length: 1000 }, () => clock.monotonicMs());
    expect(readings).toEqual([...readings].sort((a, b) => a - b));
  });

  it("calls once after the delay, and never after disposal", async () => {
    const clock = createWallClock();
    const fired: string[] = [];
    using cancelled = clock.after(5, () => fired.push("cancelled"));
    cancelled[Symbol.dispose]();
    const startedMs = clock.monotonicMs();
    await new Promise<void>((resolve) => {
      const keepAlive = setTimeout(() => {}, 5_000);
      clock.after(20, () => {
        fired.push("kept");
        clearTimeout(keepAlive);
        resolve();
      });
    });
    expect(fired).toEqual(["kept"]);
    expect(clock.monotonicMs() - startedMs).toBeGreaterThanOrEqual(19);
  });

  it("keeps a delay longer than the platform's timers can hold instead of firing at once", async () => {
    const clock = createWallClock();
    const fired: string[] = [];
    using long = clock.after(60 * 24 * 60 * 60_000, () => fired.push("long"));
    await new Promise<void>((resolve) => setTimeout(resolve, 30));
    expect(fired).toEqual([]);
    long[Symbol.dispose]();
  });
});

describe("step clock", () => {
  it("fires timers in the order of their due times, each while the clock shows it", () => {
    const clock = createStepClock(1_000);
    const seen: string[] = [];
    const note = (name: string) => () => seen.push(`${name}@${clock.monotonicMs()}/${clock.wallMs()}`);
    clock.after(30, note("c"));
    clock.after(10, note("a"));
    clock.after(10, note("b"));
    clock.after(20, () => clock.after(5, note("nested")));
    clock.advance(9);
    expect(seen).toEqual([]);
    clock.advance(21);
    expect(seen).toEqual(["a@10/1010", "b@10/1010", "nested@25/1025", "c@30/1030"]);
    expect(clock.timers()).toBe(0);
  });

  it("lets what a fired timer caused set new timers before it moves on", async () => {
    const clock = createStepClock(0);
    const seen: number[] = [];
    const loop = async (): Promise<void> => {
      for (let round = 0; round < 3; round++) {
        await new Promise<void>((resolve) => void clock.after(10, resolve));
        seen.push(clock.monotonicMs());
      }
    };
    const done = loop();
    await clock.advanceAndSettle(30);
    await done;
    expect(seen).toEqual([10, 20, 30]);
  });

  it("moves wall time alone while the machine sleeps", () => {
    const clock = createStepClock(0);
    let fired = 0;
    clock.after(100, () => fired++);
    clock.sleepMachine(3_600_000);
    expect([clock.wallMs(), clock.monotonicMs(), fired, clock.nextInMs()]).toEqual([3_600_000, 0, 0, 100]);
    clock.advance(100);
    expect(fired).toBe(1);
  });

  it("does not fire a disposed timer", () => {
    const clock = createStepClock();
    const timer = clock.after(1, () => expect.unreachable());
    timer[Symbol.dispose]();
    timer[Symbol.dispose]();
    clock.advance(10);
    expect(clock.timers()).toBe(0);
  });
});

describe("ulid source", () => {
  it("orders ids strictly, within a millisecond and after the wall clock was set back", () => {
    const clock = createStepClock();
    const ids = createUlidSource(clock);
    const made = Array.from({ length: 500 }, () => ids.ulid());
    clock.setWall(clock.wallMs() - 60_000);
    made.push(...Array.from({ length: 500 }, () => ids.ulid()));
    expect(made).toEqual([...made].sort());
    expect(new Set(made).size).toBe(1000);
    for (const id of made) expect(id).toMatch(/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  });

  it("never lets one id be counted up to its neighbour (P16)", () => {
    const ids = createUlidSource(createStepClock());
    const randomParts = Array.from({ length: 200 }, () => ids.ulid().slice(10));
    const firstCharacters = new Set(randomParts.map((part) => part.slice(0, 4)));
    expect(firstCharacters.size).toBeGreaterThan(190);
  });

  it("makes nonces of the asked length from lower-case letters and digits that do not repeat", () => {
    const ids = createUlidSource(createStepClock());
    const nonces = Array.from({ length: 200 }, () => ids.nonce(12));
    for (const nonce of nonces) expect(nonce).toMatch(/^[0-9a-z]{12}$/);
    expect(new Set(nonces).size).toBe(200);
  });
});
