/** How long a call may be held: contract §7 as a table. */

import { describe, expect, it } from "vitest";
import { askedWaitMs, type SliceRequest, sliceMs, timeLimitMs } from "../../src/mcp/budget.ts";
import { clientProfileOf } from "../../src/mcp/client-profile.ts";

const PLAIN: SliceRequest = {
  waitMs: null,
  client: null,
  requestTimeoutMs: null,
  overrideMs: null,
  learnedMs: null,
  progressToken: false,
  streaming: true,
};

function slice(change: Partial<SliceRequest>): number {
  return sliceMs({ ...PLAIN, ...change });
}

function client(name: string, version = "1.0.0") {
  return { name, version };
}

describe("slice per client (P8)", () => {
  const table: readonly [name: string, version: string, plainMs: number, withProgressMs: number][] = [
    ["claude-code", "2.1.332", 100_000, 100_000],
    ["codex-mcp-client", "0.170.9", 50_000, 50_000],
    ["codex-mcp-client", "0.171.0", 110_000, 110_000],
    ["codex-mcp-client", "1.0.0", 110_000, 110_000],
    ["codex-mcp-client", "unknown", 50_000, 50_000],
    ["cursor", "3.0", 45_000, 45_000],
    ["zed", "1", 45_000, 45_000],
    ["cline", "1", 45_000, 45_000],
    ["claude-ai", "1", 45_000, 45_000],
    ["windsurf", "1", 45_000, 45_000],
    ["pi-mcp-delegate", "1.0.0", 45_000, 45_000],
    ["pi", "1.6.0", 45_000, 240_000],
    ["opencode", "1.18.33", 45_000, 240_000],
    ["gemini-cli-mcp-client", "0.61.0", 45_000, 240_000],
    ["copilot", "1", 25_000, 25_000],
    ["Visual Studio Code", "1.120", 240_000, 240_000],
    ["somebody-else", "1", 25_000, 25_000],
  ];
  it.each(table)(
    "holds %s %s for %i ms, with a progress token for %i ms (H5, PE1)",
    (name, version, plainMs, withMs) => {
      expect(slice({ client: client(name, version) })).toBe(plainMs);
      expect(slice({ client: client(name, version), progressToken: true })).toBe(withMs);
    },
  );

  it("holds a client that never said its name as shortly as an unknown one", () => {
    expect(slice({ client: null, progressToken: true })).toBe(25_000);
  });

  it("never gives a progress bonus without a stream, and never more than 45 s without one (H4)", () => {
    expect(slice({ client: client("opencode"), progressToken: true, streaming: false })).toBe(45_000);
    expect(slice({ client: client("Visual Studio Code"), streaming: false })).toBe(45_000);
    expect(slice({ client: client("copilot"), streaming: false })).toBe(25_000);
  });
});

describe("which bound wins (P8)", () => {
  const claude = client("claude-code");

  it("prefers the operator's number to everything, up to 240 s", () => {
    expect(slice({ client: claude, overrideMs: 7_000, requestTimeoutMs: 100_000, learnedMs: 9_000 })).toBe(7_000);
    expect(slice({ client: claude, overrideMs: 999_000 })).toBe(240_000);
  });

  it("takes four fifths of what the client says it waits, at least a second (H3, P8)", () => {
    expect(slice({ client: claude, requestTimeoutMs: 30_000, learnedMs: 9_000 })).toBe(24_000);
    expect(slice({ client: claude, requestTimeoutMs: 300 })).toBe(1_000);
  });

  it("prefers what was learned to the table", () => {
    expect(slice({ client: claude, learnedMs: 14_000 })).toBe(14_000);
  });

  it("never holds longer than the caller asked, and not at all for 0", () => {
    expect(slice({ client: claude, waitMs: 1_500 })).toBe(1_500);
    expect(slice({ client: claude, waitMs: 0 })).toBe(0);
    expect(slice({ client: claude, waitMs: 10_000_000, overrideMs: 10_000_000 })).toBe(240_000);
  });
});

describe("reading limits off the wire", () => {
  it("finds the asked wait under both of its names and ignores nonsense", () => {
    expect(askedWaitMs({ waitMs: 5 })).toBe(5);
    expect(askedWaitMs({ timeoutMs: 6 })).toBe(6);
    expect(askedWaitMs({ waitMs: "7" })).toBe(7);
    expect(askedWaitMs({ waitMs: -1 })).toBe(0);
    for (const args of [{}, null, 3, { waitMs: "soon" }, { waitMs: "" }, { waitMs: Number.NaN }]) {
      expect(askedWaitMs(args)).toBeNull();
    }
  });

  it("takes only positive whole numbers for a client's limit", () => {
    expect(timeLimitMs("30000")).toBe(30_000);
    for (const text of ["0", "-5", "1.5", "1e9", "", "99999999999", undefined, ["1"]])
      expect(timeLimitMs(text)).toBeNull();
  });
});

describe("coming back after a broken stream", () => {
  it("leaves Claude Code, which tries only once, as much time for a restart as others have in two tries (R4)", () => {
    expect(clientProfileOf(client("claude-code")).retryMs).toBe(6_000);
    expect(clientProfileOf(client("opencode")).retryMs).toBe(3_000);
    expect(clientProfileOf(null).retryMs).toBe(3_000);
  });
});

describe("era offered to a client", () => {
  it("offers Claude Code the legacy era, because only there a broken wait can be resumed", () => {
    expect(clientProfileOf(client("claude-code")).era).toBe("legacy");
    expect(clientProfileOf(client("Claude-Code")).era).toBe("legacy");
    expect(clientProfileOf(client("opencode")).era).toBe("modern");
    expect(clientProfileOf(null).era).toBe("modern");
  });
});
