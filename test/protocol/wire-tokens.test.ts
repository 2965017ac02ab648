/** Session ids and event ids: signed, stateless, bound to their purpose. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createResumeIds, type HeldCall } from "../../src/mcp/resume-id.ts";
import { createSessionIds } from "../../src/mcp/session-id.ts";

const KEY = Buffer.alloc(32, 1);
const OTHER_KEY = Buffer.alloc(32, 2);
const CALL: HeldCall = {
  caller: "alice",
  requestId: 7,
  tool: "task_wait",
  args: { taskIds: ["dt_01J00000000000000000000000"], after: "14" },
  startMs: 1_000_000,
  deadlineMs: 1_100_000,
  progressToken: "p-7",
};

describe("session id (R4, R5)", () => {
  it("tells a new process with the same key who the client is", () => {
    const id = createSessionIds(KEY).mint({ name: "claude-code", version: "2.1.332" });
    expect(id).toMatch(/^[\x21-\x7e]+$/);
    expect(id.length).toBeLessThan(300);
    expect(createSessionIds(KEY).read(id)).toMatchObject({ client: { name: "claude-code", version: "2.1.332" } });
  });

  it("gives every conversation a nonce of its own, also for a client without a name", () => {
    const ids = createSessionIds(KEY);
    const nonces = [ids.mint(null), ids.mint(null)].map((id) => ids.read(id));
    expect(nonces[0]?.client).toBeNull();
    expect(nonces[0]?.nonce).not.toBe(nonces[1]?.nonce);
  });

  it("counts ids of another key, damaged ids and foreign ids as none", () => {
    const ids = createSessionIds(KEY);
    const id = ids.mint({ name: "x", version: "1" });
    const damaged = `${id.slice(0, -2)}${id.endsWith("AA") ? "BB" : "AA"}`;
    for (const text of [
      undefined,
      "",
      ".",
      "x",
      damaged,
      `${id}x`,
      createSessionIds(OTHER_KEY).mint(null),
      "1868a90c-7b",
    ]) {
      expect(ids.read(text)).toBeNull();
    }
  });

  it("never throws, whatever arrives in the header", () => {
    const ids = createSessionIds(KEY);
    expect(() =>
      fc.assert(fc.property(fc.string({ maxLength: 600 }), (text) => ids.read(text) === null)),
    ).not.toThrow();
  });

  it("is no event id and an event id is no session id", () => {
    const resume = createResumeIds(KEY).mint(CALL) ?? "";
    expect(createSessionIds(KEY).read(resume)).toBeNull();
    expect(createResumeIds(KEY).read(createSessionIds(KEY).mint(null), "alice", CALL.startMs)).toBeNull();
  });
});

describe("event id of a held call (P7)", () => {
  it("brings the whole call back in a new process with the same key", () => {
    const id = createResumeIds(KEY).mint(CALL) ?? "";
    expect(createResumeIds(KEY).read(id, "alice", CALL.startMs)).toEqual(CALL);
  });

  it("is worth nothing to another caller, under another key, or an hour after its slice (P16)", () => {
    const id = createResumeIds(KEY).mint(CALL) ?? "";
    expect(createResumeIds(KEY).read(id, "bob", CALL.startMs)).toBeNull();
    expect(createResumeIds(OTHER_KEY).read(id, "alice", CALL.startMs)).toBeNull();
    expect(createResumeIds(KEY).read(id, "alice", CALL.deadlineMs + 3_600_000)).toEqual(CALL);
    expect(createResumeIds(KEY).read(id, "alice", CALL.deadlineMs + 3_600_001)).toBeNull();
  });

  it("is not given out when it would not fit a header line (P15)", () => {
    const ids = createResumeIds(KEY);
    expect(ids.mint({ ...CALL, args: { task: "x".repeat(500_000) } })).toBeNull();
    const fitting = ids.mint({ ...CALL, args: { task: "x".repeat(400) } });
    expect(fitting?.length).toBeLessThanOrEqual(1_024);
    fc.assert(
      fc.property(fc.string({ maxLength: 2_000 }), (task) => {
        const id = ids.mint({ ...CALL, args: { task } });
        return id === null || (id.length <= 1_024 && /^[\x21-\x7e]+$/.test(id));
      }),
    );
  });

  it("never throws, whatever arrives in the header", () => {
    const ids = createResumeIds(KEY);
    const never = fc.property(fc.string({ maxLength: 1_200 }), (text) => ids.read(text, "alice", 0) === null);
    expect(() => fc.assert(never)).not.toThrow();
  });
});
