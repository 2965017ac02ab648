/**
 * When the guard holds the daemon for frozen, and when the daemon holds the guard for silent.
 */

import { describe, expect, it } from "vitest";
import { createHearing } from "../../src/guard/hearing.ts";
import { createLeaseWatch } from "../../src/guard/lease-watch.ts";
import { createStepClock } from "../support/step-clock.ts";

const LEASE_MS = 30_000;

describe("lease watch", () => {
  it("calls the daemon silent once two thirds of the lease are over without a sign of life, once (F38)", () => {
    const clock = createStepClock();
    let verdicts = 0;
    using watch = createLeaseWatch(clock, LEASE_MS, () => void verdicts++);
    clock.advance(19_900);
    expect(watch.silent()).toBe(false);
    clock.advance(1_200);
    expect(watch.silent()).toBe(true);
    clock.advance(60_000);
    expect(verdicts).toBe(1);
  });

  it("counts from the last sign of life, and begins anew with one after a silence (F38)", () => {
    const clock = createStepClock();
    let verdicts = 0;
    using watch = createLeaseWatch(clock, LEASE_MS, () => void verdicts++);
    for (let beat = 0; beat < 20; beat++) {
      clock.advance(10_000);
      watch.beat();
    }
    expect(verdicts).toBe(0);
    clock.advance(25_000);
    watch.beat();
    expect(watch.silent()).toBe(false);
    clock.advance(25_000);
    expect(verdicts).toBe(2);
  });

  it("takes a sign of life that lay unread while the guard was held up", () => {
    const clock = createStepClock();
    let verdicts = 0;
    let held = true;
    using watch = createLeaseWatch(clock, LEASE_MS, () => void verdicts++);
    clock.advance(19_500);
    // The pipe is read between the two looks.
    const readPipe = (): void => void (held && clock.after(5, () => watch.beat()));
    clock.after(501, readPipe);
    clock.advance(10_000);
    held = false;
    expect(verdicts).toBe(0);
  });

  it("gives a whole fresh period when the guard itself stood still (contract §13)", () => {
    const clock = createStepClock();
    let verdicts = 0;
    let frozenMs = 0;
    const jumping = { ...clock, monotonicMs: () => clock.monotonicMs() + frozenMs };
    using watch = createLeaseWatch(jumping, LEASE_MS, () => void verdicts++);
    clock.advance(5_000);
    frozenMs = 600_000;
    clock.advance(19_000);
    expect(verdicts).toBe(0);
    clock.advance(3_000);
    expect(verdicts).toBe(1);
    expect(watch.silent()).toBe(true);
  });
});

describe("hearing", () => {
  it("holds the guard for silent after three unheard beats over two thirds of the lease, not before", () => {
    const clock = createStepClock();
    let silences = 0;
    const hearing = createHearing({ clock, leaseMs: LEASE_MS }, () => void silences++);
    for (let beat = 0; beat < 4; beat++) {
      hearing.beatSent();
      clock.advance(5_000);
    }
    expect(silences).toBe(0);
    hearing.beatSent();
    expect(silences).toBe(1);
    hearing.heard();
    hearing.beatSent();
    expect(silences).toBe(1);
  });

  it("does not blame the guard when the daemon itself was frozen: the first beat after it proves nothing", () => {
    const clock = createStepClock();
    let silences = 0;
    const hearing = createHearing({ clock, leaseMs: LEASE_MS }, () => void silences++);
    hearing.beatSent();
    clock.advance(600_000);
    hearing.beatSent();
    expect(silences).toBe(0);
  });

  it("expects a frame after a request, and hears one that lies unread between two looks", () => {
    const clock = createStepClock();
    let silences = 0;
    const hearing = createHearing({ clock, leaseMs: LEASE_MS }, () => void silences++);
    hearing.expectFrame(5_000);
    clock.after(5_001, () => hearing.heard());
    clock.advance(10_000);
    expect(silences).toBe(0);
    hearing.expectFrame(5_000);
    clock.advance(10_000);
    expect(silences).toBe(1);
  });
});
