/**
 * The official conformance suite in both protocol eras: against the product as it is built, and against the product's wire
 * with the suite's tools in the table. `docs/conformance.md` says what is expected to fail.
 */

import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startAuthorizingProxy } from "../support/authorizing-proxy.ts";
import {
  type ExpectedFailures,
  type Revision,
  REVISIONS,
  readExpectedFailures,
  runSuite,
  type SuiteRun,
} from "../support/conformance-suite.ts";
import { CONFORMANCE_TOOLS, RECONNECTION_TOOL } from "../support/conformance-tools.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { textAt } from "../support/json.ts";
import { installProtocolTool, PROTOCOL_TOOL_INSTALL_MS } from "../support/protocol-tools.ts";
import { startWireServer, TOKEN } from "../support/wire-server.ts";

type Target = AsyncDisposable & { readonly url: string };

/** Checks that must have passed: a scenario that gives up early reports nothing, and nothing is no failure. */
const PASSED_BY_THE_PRODUCT: Readonly<Record<Revision, readonly string[]>> = {
  "2025-11-25": [
    "server-initialize:server-initialize",
    "ping:ping",
    "tools-list:tools-list",
    "tools-list:tools-name-format",
    "server-sse-multiple-streams:server-accepts-multiple-post-streams",
    "dns-rebinding-protection:localhost-host-rebinding-rejected",
    "dns-rebinding-protection:localhost-host-valid-accepted",
  ],
  "2026-07-28": [
    "server-stateless:sep-2575-server-implements-discover",
    "server-stateless:sep-2575-server-sends-subscription-ack",
    "tools-list:tools-list",
    "tools-list:tools-name-format",
    "caching:sep-2549-tools-list-caching-hints",
    "server-sse-multiple-streams:server-accepts-multiple-post-streams",
    "dns-rebinding-protection:localhost-host-rebinding-rejected",
    "dns-rebinding-protection:localhost-host-valid-accepted",
    "http-header-validation:sep-2243-server-reject-invalid-headers",
    "http-header-validation:sep-2243-server-reject-error-code",
  ],
};

const TOOL_CHECKS = [
  "tools-call-simple-text:tools-call-simple-text",
  "tools-call-error:tools-call-error",
  "tools-call-with-progress:tools-call-with-progress",
  "json-schema-2020-12:json-schema-2020-12-$defs",
  "json-schema-2020-12:sep-2106-conditional-keywords-preserved",
];

const PASSED_BY_THE_WIRE: Readonly<Record<Revision, readonly string[]>> = {
  "2025-11-25": [
    ...PASSED_BY_THE_PRODUCT["2025-11-25"],
    ...TOOL_CHECKS,
    "server-sse-polling:server-sse-priming-event",
    "server-sse-polling:server-sse-retry-field",
    "server-sse-polling:server-sse-disconnect-resume",
  ],
  "2026-07-28": [
    ...PASSED_BY_THE_PRODUCT["2026-07-28"],
    ...TOOL_CHECKS,
    "server-stateless:sep-2575-http-server-no-independent-requests-on-stream",
    "server-stateless:sep-2575-server-no-log-without-loglevel",
  ],
};

/** The built program; the suite can send no token, so a relay adds it. */
async function startProduct(): Promise<Target> {
  await using opened = new AsyncDisposableStack();
  const daemon = opened.use(await startDaemonProcess());
  const proxy = opened.use(await startAuthorizingProxy(daemon.mcpUrl, daemon.token));
  const rest = opened.move();
  return { url: proxy.url, [Symbol.asyncDispose]: () => rest.disposeAsync() };
}

/** The product's HTTP app and wire with the suite's tools, behind a relay that breaks one of them off. */
async function startFixture(): Promise<Target> {
  await using opened = new AsyncDisposableStack();
  const wire = { tools: CONFORMANCE_TOOLS, instructions: "The tools of the conformance suite." };
  const server = opened.use(await startWireServer({ mcp: wire }));
  const endsEarly = (body: unknown): boolean => textAt(body, "params", "name") === RECONNECTION_TOOL;
  const proxy = opened.use(await startAuthorizingProxy(server.mcpUrl, TOKEN, { endsEarly }));
  const rest = opened.move();
  return { url: proxy.url, [Symbol.asyncDispose]: () => rest.disposeAsync() };
}

beforeAll(() => installProtocolTool("conformance"), PROTOCOL_TOOL_INSTALL_MS);

describe.each([
  { name: "the product", file: "product.yml", start: startProduct, passes: PASSED_BY_THE_PRODUCT },
  { name: "the wire with the suite's tools", file: "fixture.yml", start: startFixture, passes: PASSED_BY_THE_WIRE },
])("$name", ({ file, start, passes }) => {
  const expected: ExpectedFailures = readExpectedFailures(path.join(import.meta.dirname, "expected", file));
  const runs = new Map<Revision, Promise<SuiteRun>>();
  let target: Target;
  beforeAll(async () => {
    target = await start();
  });
  afterAll(() => target[Symbol.asyncDispose]());

  function runOf(revision: Revision): Promise<SuiteRun> {
    const run = runs.get(revision) ?? runSuite(target.url, revision, expected);
    runs.set(revision, run);
    return run;
  }

  it.each(REVISIONS)("does what revision %s asks for, except what is listed", async (revision) => {
    const { code, passed, report } = await runOf(revision);

    expect(code, report).toBe(0);
    expect([...passed], report).toEqual(expect.arrayContaining([...passes[revision]]));
  });

  it("lists nothing that does not fail, and nothing without a reason", async () => {
    const found = await Promise.all(REVISIONS.map(runOf));
    const failed = new Set(found.flatMap((run) => [...run.failed]));
    const idle = expected.entries.filter((entry) => !failed.has(entry));

    expect(idle, `these lines of ${file} excuse nothing`).toEqual([]);
    expect(expected.unexplained).toEqual([]);
  });
});
