/**
 * docs/failure-catalogue.md: every refusal, every class of failure and every fault of the manifest, made from the code
 * itself: the sentences are the ones that a caller gets, and a fault that is said to be answered has a test that cites it.
 */

import { globSync, readFileSync } from "node:fs";
import path from "node:path";

import { classify } from "../src/core/classify.ts";
import { describe } from "../src/core/describe.ts";
import { evolve } from "../src/core/evolve.ts";
import { FAILURE_CLASSES, type FailureClass, type FaultEvidence } from "../src/core/failure.ts";
import { nodeIdOf, taskIdFrom, threadIdFrom } from "../src/core/ids.ts";
import { CODES, type Code, RETRYABLE } from "../src/core/rejection.ts";
import type { Settlement, Spec, Task } from "../src/core/task.ts";
import { failedAs, settlementOf } from "../src/core/verdict.ts";
import { ERRORS } from "../src/mcp/reply.ts";
import { sayOf, sayState } from "../src/mcp/wording.ts";
import { MANIFEST } from "../test/promises.ts";
import { ANSWERED, NOT_ANSWERED } from "./fault-answers.ts";

export function makeFailureCatalogue(): string {
  return [
    "# Failure catalogue",
    "",
    "Made from the code by `npm run generate`; `npm run check` compares. Whatever goes wrong, the caller gets a result, the",
    "handle of its task, or an explicit next step.",
    "",
    "## Refusals",
    "",
    "A refusal leaves nothing behind: the same key may be sent again. *Retryable*: the same call can succeed later unchanged.",
    "",
    "| code | retryable | `isError` | what the caller reads |",
    "|---|---|---|---|",
    ...CODES.map(codeRow),
    "",
    "## Classes of failure",
    "",
    "`problem.class` while a task heals, `outcome.class` once it has ended. *Passing* faults heal inside the child's own",
    "conversation for as long as patience lasts; *definitive* ones end the run; *unknown* ones are tried again a few times.",
    "",
    "| class | nature | continuable | next | what the caller reads at the end |",
    "|---|---|---|---|---|",
    ...FAILURE_CLASSES.map(classRow),
    "",
    "## Faults and their tests",
    "",
    "What may go wrong around a task, what the caller then gets, and the tests that bring it about: one by its title, then",
    "the other files that cite the fault. The sentences of both sides are in [tools](tools.md); what to do, by what one sees, in",
    "[troubleshooting](troubleshooting.md).",
    "",
    "| fault | what happens | what the caller gets | tests |",
    "|---|---|---|---|",
    ...faultRows(),
    "",
    "Not answered by this version as the [contract](contract.md) says it:",
    "",
    "| fault | what happens | instead |",
    "|---|---|---|",
    ...Object.entries(NOT_ANSWERED).map(([id, instead]) => `| ${id} | ${cell(saysOf(id))} | ${cell(instead)} |`),
    "",
  ].join("\n");
}

function codeRow(code: Code): string {
  const detail = {
    asked: "4711",
    limit: 4,
    cwd: "/home/me/shop",
    known: ["codex"],
    roots: ["/home/me"],
    fields: ["access"],
    ...DETAILS[code],
  };
  const related = NAMING.has(code) ? { related: otherTask() } : {};
  const next = { kind: "ask_user" } as const;
  const rejection = { kind: "rejection", code, next, detail, differing: ["task"], ...related } as const;
  const answer = {
    kind: "refusal",
    rejection,
    created: "none",
    about: null,
    newest: [],
    recorded: null,
    pending: { completions: [], count: 0 },
  } as const;
  const keyed = KEYED.has(code) ? "review-auth-7f3k9q" : null;
  const say = sayOf({ ...answer, clientRequestId: keyed }, true);
  return `| \`${code}\` | ${RETRYABLE[code] ? "yes" : "no"} | ${ERRORS.has(code) ? "yes" : "no"} | ${cell(say)} |`;
}

const KEYED: ReadonlySet<Code> = new Set(["idempotency_conflict", "expired_receipt"]);
const DETAILS: Partial<Record<Code, Readonly<Record<string, string | number | readonly string[]>>>> = {
  workspace_not_allowed: { reason: "outside_roots" },
  not_allowed: { scope: "delegate" },
  workspace_failed: { reason: "missing" },
  permission_limit: { asked: "full", allowed: "accept_edits", setting: "permissions.max" },
  expired_receipt: { taskId: "dt_…" },
};

/** Refusals that name another task of the caller's. */
const NAMING: ReadonlySet<Code> = new Set(["workspace_busy", "idempotency_conflict"]);

function otherTask() {
  const { handle, spec } = sampleTask();
  return { ...handle, mine: true, status: "working", title: spec.title, ageMs: 240_000 } as const;
}

/** Evidence that leads to a class; the others come from the daemon itself. */
const EVIDENCE: Partial<Record<FailureClass, FaultEvidence>> = {
  provider_transient: { httpStatus: 529 },
  edge_block: { httpStatus: 403, text: "<!DOCTYPE html>" },
  transport: { transport: true },
  quota: { httpStatus: 429, retryAfterMs: 3_600_000 },
  auth: { httpStatus: 401 },
  billing: { httpStatus: 402 },
  bad_request: { httpStatus: 400 },
  config: { httpStatus: 404 },
  refused: { stopReason: "refusal" },
  max_turns: { stopReason: "max_turns" },
  max_tokens: { stopReason: "max_tokens" },
  no_result: { empty: true },
  spawn_error: { spawnCode: "ENOENT" },
  exit_error: { exit: { code: 1, signal: null } },
  workspace_missing: { spawnCode: "WORKSPACE" },
  unknown: {},
};

function classRow(failure: FailureClass): string {
  const evidence = EVIDENCE[failure];
  const nature = evidence === undefined ? "told by the daemon" : classify(evidence).nature;
  const continuable = failure !== "lost";
  const view = describe(settledTask(failure, continuable), 0);
  const say = sayState({ view, queue: null, result: null, questionPrompt: null, problemText: null }, 0);
  return `| \`${failure}\` | ${nature} | ${continuable ? "yes" : "by `onLoss`"} | ${view.next.kind} | ${cell(say)} |`;
}

function settledTask(failure: FailureClass, continuable: boolean): Task {
  const task = sampleTask();
  const stop: Settlement["stop"] = { proof: "marker+tree", survivors: [], kept: [], by: null };
  const settlement = settlementOf(task, failedAs(failure, { continuable, contextKept: continuable }), stop, 0);
  return evolve(task, { kind: "TaskSettled", atMs: 0, settlement });
}

function sampleTask(): Task {
  const taskId = taskIdFrom("01ARZ3NDEKTSV4RRFFQ69G5FAV");
  const handle = { taskId, childThreadId: threadIdFrom("01ARZ3NDEKTSV4RRFFQ69G5FAW"), nodeId: nodeIdOf(taskId) };
  const origin = {
    caller: "me",
    conversation: null,
    clientRequestId: "review-auth-7f3k9q",
    parentTaskId: null,
    ancestors: [],
    rootTaskId: taskId,
    depth: 1,
  };
  const by = { kind: "caller", name: "me" } as const;
  return evolve(null, {
    kind: "TaskAccepted",
    atMs: 0,
    handle,
    spec: SPEC,
    origin,
    message: { name: "message-1", bytes: 1 },
    by,
  });
}

const SPEC: Spec = {
  title: "Review the auth diff",
  role: "review",
  agent: "codex",
  driver: "command",
  model: null,
  options: {},
  cwd: "/home/me/shop",
  access: "read",
  isolation: "auto",
  permissions: "plan",
  background: "reap",
  resultSchema: null,
  labels: [],
  onLoss: "rerun",
  requireEvidence: "assumed",
  policy: {
    maxActiveMs: 1,
    patienceMs: 1,
    backoffMaxMs: 1,
    unknownAttemptsMax: 1,
    lossesMax: 1,
    pauseMaxMs: 1,
    stallAfterMs: 1,
    questionDeadlineMs: 1,
  },
};

function faultRows(): readonly string[] {
  const cited = citations();
  return [...MANIFEST.keys()].filter(isFault).flatMap((id) => {
    const answer = ANSWERED[id];
    if ((answer === undefined) === (NOT_ANSWERED[id] === undefined))
      throw new Error(`${id} has to stand in one of the records of fault-answers.ts`);
    return answer === undefined ? [] : [`| ${id} | ${cell(saysOf(id))} | ${cell(answer)} | ${testsOf(id, cited)} |`];
  });
}

function isFault(id: string): boolean {
  return /^F\d+$/.test(id);
}

function saysOf(id: string): string {
  const entry = MANIFEST.get(id);
  if (entry === undefined) throw new Error(`${id} is no fault of the manifest`);
  return entry.says;
}

function testsOf(id: string, cited: readonly Citation[]): string {
  const mine = cited.filter(({ ids }) => ids.includes(id));
  const files = [...new Set(mine.map(({ file }) => `\`${file}\``))];
  if (files.length === 0) throw new Error(`${id} is said to be answered and no test cites it`);
  const named = mine.filter(({ title }) => title !== null && !title.includes("%"));
  // The fewer faults a test cites, the more it is about this one.
  const [clearest] = named.toSorted((one, other) => one.ids.length - other.ids.length);
  if (clearest === undefined) return files.join(", ");
  const others = files.filter((file) => file !== `\`${clearest.file}\``);
  return [`"${cell(clearest.title ?? "")}" (\`${clearest.file}\`)`, ...others].join(", ");
}

/** A place in a test that cites ids, with the title that it stands in, if it stands in one. */
type Citation = { readonly file: string; readonly ids: readonly string[]; readonly title: string | null };

const IDS = "[A-Z]{1,2}\\d{1,2}(?:(?:, | and )[A-Z]{1,2}\\d{1,2})*";
const CITED = new RegExp(`"([^"\\n]+?) \\((${IDS})\\)"|\\((${IDS})\\)`, "g");

function citations(): readonly Citation[] {
  const top = path.join(import.meta.dirname, "..");
  return globSync("test/**/*.test.ts", { cwd: top })
    .toSorted()
    .flatMap((file) =>
      Array.from(readFileSync(path.join(top, file), "utf8").matchAll(CITED), ([, title, titled, bare]) => ({
        file,
        ids: (titled ?? bare ?? "").split(/, | and /),
        title: title ?? null,
      })),
    );
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
