/**
 * The classifier, row by row: what a driver saw, and what it means.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import { FAILURE_CLASSES, type FailureClass, type FaultEvidence, type FaultNature } from "../../src/core/failure.ts";
import { LIMITS } from "../../src/core/limits.ts";

const EDGE_PAGE = "<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head></html>";
const LONG_MS = LIMITS.quotaRetryAfterMs + 1;

type Row = readonly [string, FaultEvidence, FailureClass, FaultNature];

const ROWS: readonly Row[] = [
  ["a 403 with an edge page", { httpStatus: 403, text: EDGE_PAGE }, "edge_block", "passing"],
  ["a 401 with an edge page", { httpStatus: 401, text: EDGE_PAGE }, "edge_block", "passing"],
  ["a 503 with an edge page", { httpStatus: 503, text: EDGE_PAGE }, "edge_block", "passing"],
  ["a 403 with a ray id", { httpStatus: 403, text: "error 1020, CF-RAY 8f1" }, "edge_block", "passing"],
  [
    "a 403 of a gateway",
    { httpStatus: 403, text: "Forbidden: request was blocked by a gateway or proxy" },
    "edge_block",
    "passing",
  ],
  [
    "a failed login that is an edge page, status hidden",
    {
      providerKind: "authentication_failed",
      text: "Failed to authenticate. API Error: 403 Attention Required! | Cloudflare",
    },
    "edge_block",
    "passing",
  ],
  ["a 403 in JSON", { httpStatus: 403, text: '{"error":{"type":"permission_error"}}' }, "auth", "definitive"],
  ["a 403 without a body", { httpStatus: 403 }, "auth", "definitive"],
  ["a 401", { httpStatus: 401, text: '{"error":"invalid x-api-key"}' }, "auth", "definitive"],
  ["a failed login", { providerKind: "authentication_failed", text: "Invalid API key" }, "auth", "definitive"],
  ["an unusable account", { providerKind: "account_on_hold" }, "auth", "definitive"],
  ["an account to verify", { providerKind: "verification_required" }, "auth", "definitive"],
  ["a missing cloud login", { providerKind: "cloud_credential_error" }, "auth", "definitive"],
  ["a 429", { httpStatus: 429 }, "provider_transient", "passing"],
  [
    "a 429 with a short wait",
    { httpStatus: 429, retryAfterMs: LIMITS.quotaRetryAfterMs },
    "provider_transient",
    "passing",
  ],
  ["a 429 with a long wait", { httpStatus: 429, retryAfterMs: LONG_MS }, "quota", "passing"],
  [
    "a usage limit with a known end",
    { providerKind: "usage_limit_reached", retryAfterMs: LONG_MS },
    "quota",
    "passing",
  ],
  [
    "a usage limit with an end in a moment",
    { providerKind: "usage_limit_reached", retryAfterMs: 0 },
    "provider_transient",
    "passing",
  ],
  [
    "a usage limit without a known end",
    { httpStatus: 429, providerKind: "usage_limit_reached" },
    "quota",
    "definitive",
  ],
  [
    "a usage limit with a senseless end",
    { providerKind: "usage_limit_reached", retryAfterMs: Number.NaN },
    "quota",
    "definitive",
  ],
  ...[408, 425, 500, 502, 503, 504, 529, 520, 521, 522, 523, 524, 525, 526, 527].map(
    (httpStatus): Row => [`a ${httpStatus}`, { httpStatus }, "provider_transient", "passing"],
  ),
  [
    "a 524 whose text says that it is fine",
    { httpStatus: 524, text: "completed successfully" },
    "provider_transient",
    "passing",
  ],
  ...["rate_limit", "overloaded", "overloaded_error", "server_error", "api_error"].map(
    (providerKind): Row => [`a ${providerKind}`, { providerKind }, "provider_transient", "passing"],
  ),
  ["a 402", { httpStatus: 402 }, "billing", "definitive"],
  ["a billing error", { providerKind: "billing_error" }, "billing", "definitive"],
  ["a 404", { httpStatus: 404 }, "config", "definitive"],
  ["an unknown option", { providerKind: "option_not_found" }, "config", "definitive"],
  ["another protocol", { providerKind: "protocol_mismatch" }, "config", "definitive"],
  ["an unknown model", { providerKind: "model_not_found" }, "config", "definitive"],
  ["a 400", { httpStatus: 400 }, "bad_request", "definitive"],
  ["a 413", { httpStatus: 413 }, "bad_request", "definitive"],
  ["an invalid request", { providerKind: "invalid_request" }, "bad_request", "definitive"],
  ["a broken connection", { transport: true }, "transport", "passing"],
  [
    "a broken connection that took the process along",
    { transport: true, exit: { code: 1, signal: null } },
    "transport",
    "passing",
  ],
  ["a missing program", { spawnCode: "ENOENT" }, "spawn_error", "definitive"],
  ["a program that may not be run", { spawnCode: "EACCES" }, "spawn_error", "definitive"],
  ["a machine without room for a process", { spawnCode: "EAGAIN" }, "spawn_error", "passing"],
  ["a machine without memory", { spawnCode: "ENOMEM" }, "spawn_error", "passing"],
  ["a machine without file handles", { spawnCode: "ENFILE" }, "spawn_error", "passing"],
  ["a daemon without file handles", { spawnCode: "EMFILE" }, "spawn_error", "passing"],
  ["a daemon without its guard", { spawnCode: "GUARD_GONE" }, "spawn_error", "passing"],
  ["a missing directory", { spawnCode: "WORKSPACE" }, "workspace_missing", "definitive"],
  ["a program that asks to be run again", { rerun: true, exit: { code: 75, signal: null } }, "exit_error", "passing"],
  ["an exit with an error", { exit: { code: 1, signal: null } }, "exit_error", "definitive"],
  ["an exit by a signal", { exit: { code: null, signal: "SIGKILL" } }, "exit_error", "definitive"],
  [
    "an exit of a program that wrote of a page",
    { exit: { code: 1, signal: null }, text: EDGE_PAGE },
    "exit_error",
    "definitive",
  ],
  ["a session that its agent does not know", { contextLost: true }, "context_lost", "definitive"],
  [
    "a lost session with a status and a page",
    { contextLost: true, httpStatus: 403, text: EDGE_PAGE },
    "context_lost",
    "definitive",
  ],
  ["a refusal", { stopReason: "refusal" }, "refused", "definitive"],
  ["no turns left", { stopReason: "max_turns" }, "max_turns", "definitive"],
  ["no tokens left", { stopReason: "max_tokens" }, "max_tokens", "definitive"],
  ["no output tokens left", { providerKind: "max_output_tokens" }, "max_tokens", "definitive"],
  ["an end without a word", { empty: true }, "no_result", "definitive"],
  [
    "an end without a word and with exit 0",
    { empty: true, exit: { code: 0, signal: null } },
    "no_result",
    "definitive",
  ],
  ["nothing at all", {}, "unknown", "unknown"],
  ["a bare text", { text: "Authentication required" }, "unknown", "unknown"],
  ["a status of no known meaning", { httpStatus: 418 }, "unknown", "unknown"],
  ["a kind of no known meaning", { providerKind: "unknown" }, "unknown", "unknown"],
  ["a stop of no known meaning", { stopReason: "something_new" }, "unknown", "unknown"],
];

describe("the classifier", () => {
  it.each(ROWS)("reads %s (P6, P13, F11, F12, F13, W1, W2, W4, W6, G5)", (_what, evidence, failure, nature) => {
    const fault = classify(evidence);
    expect({ class: fault.class, nature: fault.nature }).toEqual({ class: failure, nature });
  });

  it("hands on status, stop reason and wait as they came", () => {
    expect(classify({ httpStatus: 429, stopReason: "error", retryAfterMs: 1_500 })).toMatchObject({
      httpStatus: 429,
      stopReason: "error",
      retryAfterMs: 1_500,
    });
    expect(classify({})).toMatchObject({ httpStatus: null, stopReason: null, retryAfterMs: null });
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1])("takes no wait of %d ms from a provider", (retryAfterMs) => {
    expect(classify({ httpStatus: 429, retryAfterMs }).retryAfterMs).toBeNull();
  });
});

describe("whatever a driver saw", () => {
  const evidence: fc.Arbitrary<FaultEvidence> = fc.record(
    {
      httpStatus: fc.oneof(fc.integer({ min: 100, max: 599 }), fc.constantFrom(401, 403, 429, 503, 529)),
      text: fc.oneof(fc.string(), fc.constant(EDGE_PAGE), fc.constant("task completed")),
      providerKind: fc.oneof(
        fc.string(),
        fc.constantFrom("rate_limit", "authentication_failed", "usage_limit_reached"),
      ),
      stopReason: fc.oneof(fc.string(), fc.constantFrom("refusal", "end_turn", "max_turns")),
      retryAfterMs: fc.oneof(fc.nat(), fc.double()),
      exit: fc.record({ code: fc.option(fc.nat({ max: 255 })), signal: fc.constant(null) }),
      spawnCode: fc.constantFrom("ENOENT", "EAGAIN", "WORKSPACE"),
      transport: fc.boolean(),
      empty: fc.boolean(),
      rerun: fc.boolean(),
      contextLost: fc.boolean(),
    },
    { requiredKeys: [] },
  );

  it("is a failure of a known class: nothing that is written makes a success (P13, W3)", () => {
    fc.assert(
      fc.property(evidence, (seen) => {
        const { class: failure, nature } = classify(seen);
        expect(FAILURE_CLASSES).toContain(failure);
        expect(nature === "unknown").toBe(failure === "unknown");
      }),
    );
  });

  it("means the same with any text, but for an edge page in place of a refusal (W3)", () => {
    fc.assert(
      fc.property(evidence, fc.string(), (seen, text) => {
        const { class: failure } = classify({ ...seen, text });
        const { class: page } = classify({ ...seen, text: EDGE_PAGE });
        expect([failure, "edge_block"]).toContain(page);
      }),
    );
  });

  it("only waits for what has an end", () => {
    fc.assert(
      fc.property(evidence, (seen) => {
        const { class: failure, nature, retryAfterMs } = classify(seen);
        if (failure === "quota" && nature === "passing" && seen.retryAfterMs !== Number.POSITIVE_INFINITY) {
          expect(retryAfterMs).toBeGreaterThan(LIMITS.quotaRetryAfterMs);
        }
      }),
    );
  });
});
