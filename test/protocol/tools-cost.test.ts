/**
 * What a delegation costs the model that delegates: one hour of a child's work, for every client that is known, in turns and
 * tokens. The figures in `docs/benchmarks.md` are printed by this test.
 *
 * The real engine and tools with a clock that is stepped; whoever waits follows `next` to the letter, as a model does. The
 * hour has all that an ordinary one may have: steps every few seconds, a provider that turns the child away for minutes, a
 * silence long enough to be told of, and a report of 6,000 characters.
 *
 * Absent on purpose: what a client adds to a call or an answer, and the descriptions of the tools (`tools-list`).
 */

import { describe, expect, it } from "vitest";
import { sliceMs } from "../../src/mcp/budget.ts";
import { KNOWN_CLIENTS } from "../../src/mcp/client-profile.ts";
import { at, textAt } from "../support/json.ts";
import { startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const HOUR_MS = 3_600_000;
const BEAT_MS = 7_000;
const KEY = "review-checkout-7f3k9q";
const TITLE = "Review the retry handling of the checkout service";
const CWD = "/shop/clients/northwind/storefront/packages/checkout-service";
const TASK =
  "Review how the checkout service retries calls to the payment provider: src/payment/retry.ts and its callers. Look for retries of calls that are not idempotent, for missing limits and for errors that are swallowed. Change nothing. Report each finding with its place, why it matters and how to put it right.";

const ANSWER_TEXT_MAX = 220;
const ANSWER_OBJECT_MAX = 350;
/** Slices from here on count as long. */
const LONG_SLICE_MS = 90_000;
const HOUR_MAX_LONG = 20_000;
const HOUR_MAX_SHORT = 60_000;

/** What a client shows its model: the object for two of them, text for three; of the others the dearer is counted. */
type Shown = "object" | "text" | "dearer";

type Client = {
  readonly name: string;
  readonly version?: string;
  readonly progressToken: boolean;
  readonly shown: Shown;
};

const SHOWN: Readonly<Record<string, Shown>> = {
  "claude-code": "object",
  "codex-mcp-client": "object",
  pi: "text",
  "pi-mcp-adapter": "text",
  opencode: "text",
  "gemini-cli-mcp-client": "text",
};

const CLIENTS: readonly Client[] = [...KNOWN_CLIENTS, "pi-mcp-adapter", "some-new-client"].flatMap((name) => {
  const client = { name, progressToken: true, shown: SHOWN[name] ?? "dearer" } as const;
  if (name === "codex-mcp-client") return ["0.170.0", "0.171.0"].map((version) => ({ ...client, version }));
  return sliceOf(client) === sliceOf({ ...client, progressToken: false })
    ? [client]
    : [client, { ...client, progressToken: false }];
});

function sliceOf({ name, version = "1.0.0", progressToken }: Client): number {
  return sliceMs({
    waitMs: null,
    client: { name, version },
    requestTimeoutMs: null,
    overrideMs: null,
    learnedMs: null,
    progressToken,
    streaming: true,
  });
}

type Turn = { readonly args: object; readonly answer: TestAnswer };
type Tokens = { readonly text: number; readonly object: number; readonly written: number };
type Hour = { readonly turns: readonly Turn[]; readonly elapsedMs: number };

/** Steps until shortly before the hour is over; the end comes with it. */
function script(): string {
  const beats = (count: number): readonly object[] =>
    Array.from({ length: count }, (_, beat) => [
      { do: "sleep", ms: BEAT_MS },
      { do: "progress", steps: 1, toolRunning: beat % 3 === 1 },
    ]).flat();
  const steps = [
    ...beats(87),
    { do: "fault", times: 9, fault: { httpStatus: 403, text: "<html>" } },
    ...beats(87),
    { do: "sleep", ms: 7 * 60_000 },
    ...beats(232),
    { do: "waitFor", name: "hour" },
    { do: "say", text: report(6_000) },
  ];
  return JSON.stringify({ steps });
}

/** Prose of about the density of a review. */
function report(characters: number): string {
  let text = "";
  for (let number = 1; text.length < characters; number += 1)
    text += `${number}. src/payment/retry.ts:${number * 17}: the call to \`authorise\` is sent again after a time-out although the first may have succeeded; the customer can be charged twice. Pass the order's idempotency key, as \`capture\` in client.ts:${number * 31} does.\n`;
  return text.slice(0, characters);
}

/** Delegates, waits as `next` says until the result is there, and confirms it. */
async function anHour(sliceMaxMs: number): Promise<Hour> {
  await using test = await startTestEngine();
  const beganMs = test.clock.monotonicMs();
  test.clock.after(HOUR_MS, () => test.driver.release("hour"));
  const asked = { clientRequestId: KEY, title: TITLE, task: TASK, role: "review", cwd: CWD };
  const turns: Turn[] = [
    { args: asked, answer: await test.call("delegate_task", { ...asked, options: { script: script() } }) },
  ];
  for (;;) {
    const { structured, taskId } = turns.at(-1)?.answer ?? expect.fail("there is a first turn");
    if (textAt(structured, "next", "kind") !== "wait") {
      const elapsedMs = test.clock.monotonicMs() - beganMs;
      const args = { taskId, settlement: 1 };
      return { turns: [...turns, { args, answer: await test.call("task_ack", args) }], elapsedMs };
    }
    const args = Object(at(structured, "next", "arguments"));
    turns.push({ args, answer: await waited(test, args, sliceMaxMs) });
    if (turns.length > 500) throw new Error("the hour does not end");
  }
}

/** Moves time on until the wait is answered. */
async function waited(test: TestEngine, args: object, sliceMaxMs: number): Promise<TestAnswer> {
  const untilMs = test.clock.monotonicMs() + sliceMaxMs;
  const answers: TestAnswer[] = [];
  const waiting = test.call("task_wait", { ...args }, { sliceMaxMs }).then((given) => {
    answers.push(given);
    return given;
  });
  await test.settle();
  while (answers.length === 0 && test.clock.monotonicMs() <= untilMs)
    await test.clock.advanceAndSettle(test.clock.nextInMs() ?? sliceMaxMs);
  return waiting;
}

type Counted = Hour & { readonly tokens: readonly Tokens[] };

const hours = new Map<number, Promise<Counted>>();

/** The same slice has the same hour. */
function hourOf(slice: number): Promise<Counted> {
  const known = hours.get(slice) ?? counted(slice);
  hours.set(slice, known);
  return known;
}

async function counted(slice: number): Promise<Counted> {
  // Large, so it is loaded by nobody else.
  const { countTokens } = await import("gpt-tokenizer/encoding/o200k_base");
  const hour = await anHour(slice);
  const tokens = hour.turns.map(({ args, answer }) => ({
    text: countTokens(answer.text),
    object: countTokens(JSON.stringify(answer.structured)),
    written: countTokens(JSON.stringify(args)),
  }));
  return { ...hour, tokens };
}

function shownBy(client: Client, { text, object }: Tokens): number {
  if (client.shown === "dearer") return Math.max(text, object);
  return client.shown === "text" ? text : object;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((one, other) => one + other, 0);
const thousands = (number: number): string => number.toLocaleString("en-GB");

describe("an hour of a child's work", () => {
  it("costs its caller few turns and few tokens, whichever client it is (P7)", { timeout: 60_000 }, async () => {
    const rows: string[] = [];
    for (const client of CLIENTS) {
      const slice = sliceOf(client);
      const { turns, tokens, elapsedMs } = await hourOf(slice);
      expect(elapsedMs / 1_000, "seconds of the hour").toBeCloseTo(HOUR_MS / 1_000, -1);
      const read = sum(tokens.map((each) => shownBy(client, each)));
      const written = sum(tokens.map((each) => each.written));
      const turnsMax = Math.ceil(HOUR_MS / slice) + 4;
      const tokensMax = slice >= LONG_SLICE_MS ? HOUR_MAX_LONG : HOUR_MAX_SHORT;
      const name = `${client.name}${client.version === undefined ? "" : ` ${client.version}`}`;
      const kind = sliceOf({ ...client, progressToken: !client.progressToken }) === slice ? "" : progressNote(client);
      const cells = [`${name}${kind}`, `${slice / 1_000} s`, client.shown, turns.length, turnsMax];
      rows.push(
        [...cells, thousands(read), thousands(written), thousands(read + written), thousands(tokensMax)].join(" | "),
      );
      expect(turns.length, `turns of ${name}`).toBeLessThanOrEqual(turnsMax);
      expect(read + written, `tokens of ${name}`).toBeLessThanOrEqual(tokensMax);
    }
    console.log(`client | slice | shown | turns | at most | read | written | tokens | at most\n${rows.join("\n")}`);
  });

  it("brings all that such an hour is made of", { timeout: 60_000 }, async () => {
    const { turns } = await hourOf(25_000);
    const phases = new Set(turns.map(({ answer }) => textAt(answer.structured, "phase")));
    for (const phase of ["running", "healing", "stalled", "settled"]) expect(phases).toContain(phase);
    expect(textAt(turns.at(-2)?.answer.structured, "fromChild", "result", "text").length).toBeGreaterThanOrEqual(5_900);
    const calls = turns.map(({ args }) => JSON.stringify(args));
    expect(new Set(calls).size, "no call is like another").toBe(calls.length);
  });
});

describe("one answer", () => {
  it("that a task is accepted or goes on is short in both forms (P1)", { timeout: 60_000 }, async () => {
    const dearest = new Map<string, { text: number; object: number }>();
    for (const slice of new Set(CLIENTS.map(sliceOf))) {
      const { turns, tokens } = await hourOf(slice);
      for (const [turn, { text, object }] of tokens.entries()) {
        const structured = turns[turn]?.answer.structured ?? {};
        if (structured["status"] !== "working") continue;
        const name = structured["created"] === "new" ? "accepted" : textAt(structured, "phase");
        const before = dearest.get(name) ?? { text: 0, object: 0 };
        dearest.set(name, { text: Math.max(text, before.text), object: Math.max(object, before.object) });
      }
    }
    console.log([...dearest].map(([name, { text, object }]) => `${name} | ${text} | ${object}`).join("\n"));
    for (const [name, { text, object }] of dearest) {
      expect(text, `text: ${name}`).toBeLessThanOrEqual(ANSWER_TEXT_MAX);
      expect(object, `object: ${name}`).toBeLessThanOrEqual(ANSWER_OBJECT_MAX);
    }
    expect([...dearest.keys()]).toEqual(expect.arrayContaining(["accepted", "running", "healing", "stalled"]));
  });
});

function progressNote({ progressToken }: Client): string {
  return progressToken ? ", progress token" : ", no progress token";
}
