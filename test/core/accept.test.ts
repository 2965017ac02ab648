/**
 * Accepting a delegation: what makes a task, and every limit that refuses one before anything exists.
 */

import { describe, expect, it } from "vitest";
import type { Circumstances } from "../../src/core/command.ts";
import { decide } from "../../src/core/decide.ts";
import type { NextStep } from "../../src/core/next-step.ts";
import type { Code, Rejection } from "../../src/core/rejection.ts";
import { aHandle, anOrigin, aSpec, delegated, given, T0 } from "../support/given.ts";

describe("a delegation", () => {
  it("makes a queued task with its three ids, due at once and started by nobody (P2, F30)", () => {
    const { task, events } = given();
    expect(events.map(({ kind }) => kind)).toEqual(["TaskAccepted", "RunQueued"]);
    expect(task).toMatchObject({
      handle: aHandle(),
      spec: aSpec(),
      origin: anOrigin(),
      createdAtMs: T0,
      state: { kind: "queued", reason: "new", dueAtMs: T0, sinceMs: T0, problem: null },
      run: { ordinal: 1, message: { name: "message-1" } },
      epoch: 0,
      settlements: 0,
      version: 2,
    });
    expect(task.handle.nodeId).toBe(`node:delegated-task:${task.handle.taskId}`);
  });

  it("is refused without a trace where its task exists already (P3)", () => {
    const before = given();
    const { decision, task } = before.when(delegated());
    expect(decision).toMatchObject({ kind: "rejection", code: "internal", next: { kind: "repeat_same_call" } });
    expect(task).toBe(before.task);
  });
});

describe("a limit on delegations", () => {
  const table: readonly { change: Partial<Circumstances>; depth?: number; code: Code; next: NextStep["kind"] }[] = [
    { change: { depthMax: 0 }, code: "depth_limit", next: "do_it_yourself" },
    { change: { depthMax: 1 }, depth: 2, code: "depth_limit", next: "do_it_yourself" },
    { change: { delegatorGone: true }, code: "not_allowed", next: "do_it_yourself" },
    { change: { tasksInTree: 50 }, code: "tree_limit", next: "do_it_yourself" },
    { change: { delegationsLastMinute: 60 }, code: "rate_limit", next: "repeat_same_call" },
    { change: { openTasks: 1_004 }, code: "capacity_full", next: "repeat_same_call" },
    { change: { claimHolder: { mine: false, sinceMs: T0 } }, code: "workspace_busy", next: "fix" },
  ];

  it.each(table)(
    "refuses with $code and a way on when it is reached (P1, P15, E1, E4)",
    ({ change, depth, code, next }) => {
      const refused = refusal(change, depth);
      expect({ code: refused.code, next: refused.next.kind }).toEqual({ code, next });
    },
  );

  it.each<Partial<Circumstances>>([
    { tasksInTree: 49 },
    { delegationsLastMinute: 59 },
    { openTasks: 1_003 },
    { depthMax: 2 },
  ])("accepts the last one below it: %o", (circumstances) => {
    expect(decide(null, delegated({ circumstances }), T0).kind).toBe("accepted");
  });

  it("names its value, so that the caller can tell its user (E1)", () => {
    expect(refusal({ tasksInTree: 50 }).detail).toEqual({ limit: 50 });
    expect(refusal({ depthMax: 0 }).detail).toEqual({ limit: 0 });
  });

  it("names first what the caller must do itself and last what passes by waiting", () => {
    const all: Partial<Circumstances> = {
      depthMax: 0,
      tasksInTree: 50,
      delegationsLastMinute: 60,
      openTasks: 1_004,
      claimHolder: { mine: false, sinceMs: T0 },
    };
    const order: Code[] = [];
    for (let left = all; ; ) {
      const decision = decide(null, delegated({ circumstances: left }), T0);
      if (decision.kind !== "rejection") break;
      order.push(decision.code);
      left = withoutCause(left, decision.code);
    }
    expect(order).toEqual(["depth_limit", "tree_limit", "rate_limit", "capacity_full", "workspace_busy"]);
  });
});

describe("a directory that somebody else writes in", () => {
  it("names the holder that is the caller's own, and offers to queue behind it (P10, F26, K2)", () => {
    const refused = refusal({ claimHolder: { mine: true, handle: aHandle(2), sinceMs: T0 } });
    expect(refused).toMatchObject({
      code: "workspace_busy",
      next: { kind: "fix", change: { onBusy: "queue" } },
      detail: { cwd: "/repo/shop", mine: "yes", holder: aHandle(2).taskId },
    });
  });

  it("says of another caller's holder only since when it has been there (P16, F26)", () => {
    const refused = refusal({ claimHolder: { mine: false, sinceMs: T0 } });
    expect(refused.detail).toEqual({ cwd: "/repo/shop", sinceMs: T0, mine: "no" });
  });

  it("is not waited for where a task above holds it: nobody waits for itself (P10, P16)", () => {
    const holder = { mine: true, handle: aHandle(2), sinceMs: T0 } as const;
    for (const onBusy of ["refuse", "queue"] as const) {
      const refused = refusal({ claimHolder: holder, holderIsAbove: true, onBusy, depthMax: 2 }, 2);
      expect(refused).toMatchObject({ code: "workspace_busy", next: { kind: "fix", change: { access: "read" } } });
      expect(refused.detail).toEqual({ cwd: "/repo/shop", sinceMs: T0, mine: "above" });
    }
  });

  it("is waited for by a task that asked to be queued (P10, F32)", () => {
    const circumstances: Partial<Circumstances> = { claimHolder: { mine: false, sinceMs: T0 }, onBusy: "queue" };
    expect(given({ circumstances }).task.state.kind).toBe("queued");
  });
});

function refusal(circumstances: Partial<Circumstances>, depth = 1): Rejection {
  const decision = decide(null, delegated({ circumstances, origin: { depth } }), T0);
  if (decision.kind !== "rejection") throw new Error(`not refused: ${decision.kind}`);
  return decision;
}

function withoutCause(circumstances: Partial<Circumstances>, code: Code): Partial<Circumstances> {
  switch (code) {
    case "depth_limit":
      return { ...circumstances, depthMax: 1 };
    case "tree_limit":
      return { ...circumstances, tasksInTree: 0 };
    case "rate_limit":
      return { ...circumstances, delegationsLastMinute: 0 };
    case "capacity_full":
      return { ...circumstances, openTasks: 0 };
    case "workspace_busy":
      return { ...circumstances, claimHolder: null };
    default:
      throw new Error(`unexpected ${code}`);
  }
}
