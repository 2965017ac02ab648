/**
 * Every sentence that a model reads in an answer, but for refusals (`wording-refusal`).
 *
 * Rules: the first words say whether anything runs; a wait never "times out"; not how often, but until when it is tried;
 * what not to do where one is tempted; the exact next call. Nothing that a child wrote ever gets in here (P17).
 * Invariant: pure; golden tests hold the words.
 */

import type { FailureClass } from "../core/failure.ts";
import type { TaskView } from "../core/describe.ts";
import type { ProofKind } from "../core/task.ts";
import { assertNever } from "../core/assert.ts";
import { sanitiseLine } from "../core/sanitise.ts";
import type { AgentsAnswer, Answer, PageAnswer, TaskAnswer, TaskItem, TasksAnswer } from "../ports/engine.ts";
import { EMPTY_PAGES } from "./empty-pages.ts";
import { shownPath } from "./task-fields.ts";
import { sayRefusal } from "./wording-refusal.ts";
import { ago, capital, count, joined, listOf, named, nowOf, span, until } from "./words.ts";

/** One or two sentences on what is true now. `starts`: the tool would have started or sent something. */
export function sayOf(answer: Answer, starts: boolean): string {
  switch (answer.kind) {
    case "task":
      return sayTask(answer);
    case "tasks":
      return sayTasks(answer);
    case "list":
      return sayList(answer.views);
    case "page":
      return sayPage(answer);
    case "agents":
      return sayAgents(answer);
    case "refusal":
      return sayRefusal(answer, starts);
    default:
      return assertNever(answer);
  }
}

function sayTask(answer: TaskAnswer): string {
  return joined(sayOfTask(answer), storageNote(answer.storageTrouble));
}

function sayOfTask(answer: TaskAnswer): string {
  const { item } = answer;
  const { view } = item;
  if (answer.notANewRun) {
    const used = ago(answer.replayedAgeMs ?? 0);
    return `NOT A NEW RUN: this key was used ${used} and its result was read. If you mean new work, use the key below.`;
  }
  if (answer.movedOn) return `${headOf(view)}: ${continuedBy(view)} Your message was not sent.`;
  if (answer.waitEnded === "shutdown" && view.phase !== "settled") {
    return `RESTARTING: the wait has ended, the task has not: ${named(view)} goes on or resumes by itself after the restart.`;
  }
  if (isAccepted(answer)) return sayAccepted(item);
  const notes = [sentNote(answer), replayNote(answer), quietNote(answer)];
  return joined(sayState(item, answer.stepsTold), ...notes);
}

/** True for a delegation that is answered before anything else can be told of it. */
export function isAccepted({ created, sent, waitEnded }: TaskAnswer): boolean {
  return created === "new" && sent === null && waitEnded === null;
}

/** Who went on with the task; a run that has its own message is told from the first. */
function continuedBy(view: TaskView): string {
  const { kind, atMs } = view.runBy;
  const who = kind === "person" ? "a person" : "somebody";
  return `${who} continued this task ${ago(nowOf(view) - atMs)} (run ${view.runOrdinal}).`;
}

const QUIET_SLICES_MAX = 5;

/** Whoever has heard nothing new that often may rather be done with its turn; `say` then tells so. */
export function isLongQuiet({ quietSlices, next }: Pick<TasksAnswer, "quietSlices" | "next">): boolean {
  return quietSlices >= QUIET_SLICES_MAX && next.kind === "wait";
}

function quietNote(answer: Pick<TasksAnswer, "quietSlices" | "next">): string {
  return isLongQuiet(answer) ? "You may end your turn; the result is kept." : "";
}

function sayAccepted(item: TaskItem): string {
  const { view } = item;
  const { spec } = view;
  const cwd = shownPath(spec.cwd, CWD_CHARACTERS_MAX);
  const where =
    spec.access === "read"
      ? `it reads ${cwd} as it is, uncommitted changes included.`
      : `it writes in YOUR checkout ${cwd}; do not edit there until it ends.`;
  if (item.queue === null) return `ACCEPTED: ${named(view)}. ${spec.agent} is starting; ${where}`;
  return `ACCEPTED, queued: ${named(view)}. ${queueOf(item.queue)} Then ${where}`;
}

const CWD_CHARACTERS_MAX = 300;

function sentNote({ sent, item }: TaskAnswer): string {
  if (sent === "answered") return "The answer is recorded and handed to the child.";
  if (sent === "queued" && item.view.phase === "stopping")
    return "Your message is queued: it is sent after the run that is ending, or, if that did not complete, with your next task_continue.";
  if (sent === "queued") return "Your message is queued and is sent after the present turn.";
  return sent === "started" ? `Your message started run ${item.view.runOrdinal}.` : "";
}

function replayNote({ created, replayedAgeMs, alreadyDone }: TaskAnswer): string {
  if (created === "replayed")
    return `This repeats the call accepted ${ago(replayedAgeMs ?? 0)}; nothing new was started.`;
  return alreadyDone ? "That had been done before; nothing changed." : "";
}

function storageNote(trouble: boolean): string {
  return trouble
    ? "The server cannot write its data at present: tell your user. What happened is kept in memory and is written as soon as that is possible."
    : "";
}

/** What is true of a task now. */
export function sayState(item: TaskItem, stepsTold: number): string {
  const { view } = item;
  const title = named(view);
  switch (view.phase) {
    case "queued":
      return `WORKING, queued: ${title}. ${item.queue === null ? "It starts at once." : queueOf(item.queue)}`;
    case "starting":
      return `WORKING, starting: ${title}. ${view.spec.agent} is being started.`;
    case "running":
    case "attached":
      return `WORKING, healthy: ${title}. ${progressOf(view, stepsTold)}`;
    case "healing":
    case "paused":
      return `WORKING, ${view.phase}: ${title}. ${problemOf(view)}`;
    case "recovering":
      return `WORKING, recovering: ${title}. Its process was lost; the same task goes on by itself, under the same ids. Nothing is asked of you.`;
    case "awaiting_answer":
      return `NEEDS AN ANSWER (${view.question?.kind ?? "question"}): ${title}. The child waits for up to ${span((view.question?.deadlineAtMs ?? 0) - nowOf(view))} more; not answering is not a refusal.`;
    case "stalled":
      return `WORKING, but quiet: ${title}. ${quietOf(view)} It may still come back; wait, or cancel it if the work is no longer wanted.`;
    case "stopping":
      return sayStopping(view);
    case "settled":
      return saySettled(view);
    default:
      return assertNever(view.phase);
  }
}

function sayStopping(view: TaskView): string {
  if (view.survivors.length === 0)
    return `WORKING, stopping: ${named(view)}. It has ended; its processes are being proven gone.`;
  const pids = listOf(view.survivors.map(({ pid }) => String(pid)));
  return `WORKING, stopping: ${named(view)}. Some of its processes cannot be ended (pid ${pids}); a person can end or abandon them (delegate-mcp cancel ${view.handle.taskId} --abandon).`;
}

function saySettled(view: TaskView): string {
  const settlement = view.outcome;
  if (settlement === null) return `WORKING: ${named(view)}.`;
  const { verdict, stop } = settlement;
  const gone = PROOF[stop.proof];
  switch (verdict.status) {
    case "completed":
      return `COMPLETED: ${named(view)}. Run ${settlement.runOrdinal}; evidence ${verdict.evidence ?? "assumed"}${verdict.evidence === "assumed" ? " (this agent cannot tell success from failure: check the report)" : ""}; ${gone}.`;
    case "cancelled":
      return `CANCELLED: ${named(view)}. ${capital(gone)}.${verdict.partial ? " What it had written until then is below, marked partial." : ""}`;
    case "failed":
      return `FAILED${verdict.continuable ? ", can be continued" : ""}: ${named(view)}. ${failureOf(view)} ${capital(gone)}${verdict.contextKept && stop.proof !== "none_started" ? "; its conversation and its changed files are kept" : ""}.`;
    default:
      return assertNever(verdict.status);
  }
}

function failureOf(view: TaskView): string {
  const verdict = view.outcome?.verdict;
  if (verdict === undefined || verdict.class === null) return "It failed.";
  const status = verdict.httpStatus === null ? "" : ` (HTTP ${verdict.httpStatus})`;
  return FAILURES[verdict.class].replace("{agent}", view.spec.agent).replace("{status}", status);
}

const FAILURES: Readonly<Record<FailureClass, string>> = {
  provider_transient: "The model provider was down{status} for all the time that retries were allowed.",
  edge_block: "The provider's edge turned requests away{status} for all the time that retries were allowed.",
  transport: "The connection to the provider kept breaking for all the time that retries were allowed.",
  quota: "A usage limit of the provider is reached{status}.",
  auth: "The provider refused the child's login{status}. Log {agent} in, then continue the task.",
  billing: "The provider asks for payment{status}. Put the account in order, then continue the task.",
  bad_request: "The provider rejected the request{status}.",
  config:
    "The model or agent is not available as configured{status}. Correct the agent's configuration, then continue the task.",
  refused: "The model refused the work.",
  max_turns: "It used up its turns before it was done.",
  max_tokens: "It reached its token limit before it was done.",
  deadline: "It reached the limit on its running time.",
  no_result: "It ended without a result.",
  spawn_error:
    "The program of agent {agent} could not be started. Correct its command or install it, then continue the task.",
  exit_error: "The program of agent {agent} ended with an error.",
  lost: "Its process was lost, and whether it may be run again is for you to decide.",
  context_lost: "The child's own conversation was lost.",
  input_expired: "Nobody answered its question in time.",
  workspace_missing: "Its directory is gone.",
  host_unreachable: "Its host cannot be reached.",
  survivors: "Some of its processes could not be ended.",
  continued_elsewhere: "Somebody continued its conversation outside of this server.",
  unknown: "It failed for a reason that could not be told.",
};

const PROOF: Readonly<Record<ProofKind, string>> = {
  cgroup: "all processes gone",
  pidns: "all processes gone",
  "marker+tree": "all processes gone",
  tree: "all processes of its tree gone",
  none_started: "no process was ever started",
  abandoned: "a person abandoned the processes that are left",
};

function sayTasks(answer: TasksAnswer): string {
  return joined(sayOfTasks(answer), quietNote(answer), storageNote(answer.storageTrouble));
}

function sayOfTasks(answer: TasksAnswer): string {
  const { items, waitEnded } = answer;
  if (items.length === 0) return "NOTHING TO WAIT FOR: you have no open or unread tasks.";
  const news = items.filter((item) => item.kind === "news");
  const counts = Object.entries(answer.counts).map(([status, count]) => `${count} ${status}`);
  const lost = items.filter((item) => item.kind === "unknown").map((item) => sanitiseLine(item.asked, 60));
  const unknown = lost.length === 0 ? "" : ` Not tasks of yours: ${listOf(lost)}.`;
  if (waitEnded === "shutdown")
    return `RESTARTING: the wait has ended, the tasks have not (${counts.join(", ")}).${unknown}`;
  const open = (answer.counts.working ?? 0) + (answer.counts.input_required ?? 0);
  if (news.length === 0 && open === 0)
    return `NOTHING NEW: these tasks have ended (${counts.join(", ")}), and you have been told how.${unknown}`;
  if (news.length === 0) return `WORKING: no news yet (${counts.join(", ")}).${unknown} That is normal.`;
  return `NEWS of ${news.length} task${news.length === 1 ? "" : "s"} (${counts.join(", ")}).${unknown}`;
}

/** What follows where not all news fitted into one answer. */
export function leftNote(left: number): string {
  return left === 0 ? "" : `${left} more did not fit here: wait again.`;
}

function sayList(views: readonly TaskView[]): string {
  if (views.length === 0) return "No tasks of yours match.";
  const open = views.filter((view) => view.phase !== "settled").length;
  return `${views.length} task${views.length === 1 ? "" : "s"}, newest first; ${open} not ended.`;
}

function sayPage({ view, page }: PageAnswer): string {
  const of = `${VIEWS[page.name]} of ${named(view)}`;
  if (page.empty !== null) return `${capital(of)}: ${EMPTY_PAGES[page.empty]}.`;
  const size = page.totalBytes === null ? "" : ` (${page.totalBytes} bytes in all)`;
  const more = page.nextCursor === null ? " This is the last page." : " There is more: the next call gives it.";
  return `${capital(of)}, ${count(page.parts.length, "part")}${size}.${more}`;
}

const VIEWS: Readonly<Record<PageAnswer["page"]["name"], string>> = {
  result: "the final text",
  messages: "the conversation",
  changes: "the changes",
  events: "the log",
};

function sayAgents({ agents }: AgentsAnswer): string {
  if (agents.length === 0) return "NO AGENTS are configured here. Ask the user to configure one (agents.<name>).";
  const missing = agents.filter(({ health }) => health === "missing").length;
  const healing = agents.reduce((sum, agent) => sum + agent.healing, 0);
  return joined(
    `${count(agents.length, "agent")} can be children here.`,
    missing === 0 ? "" : `The program of ${missing} of them was not found.`,
    healing === 0 ? "" : `${count(healing, "child")} waiting for a provider that has trouble: they heal by themselves.`,
  );
}

function headOf(view: TaskView): string {
  return view.phase === "settled" ? (view.outcome?.verdict.status ?? "settled").toUpperCase() : "WORKING";
}

function queueOf(queue: NonNullable<TaskItem["queue"]>): string {
  if (queue.reason === "workspace") return "It waits for the writer before it in the same directory.";
  return `It is number ${queue.position} in the queue; all places for running children are taken.`;
}

function progressOf(view: TaskView, stepsTold: number): string {
  const { activity } = view;
  if (activity === null) return "";
  const steps = Math.max(0, view.steps - stepsTold);
  const what = stepsTold === 0 ? `${count(steps, "step")} so far` : `${count(steps, "step")} since your last look`;
  const last = view.steps === 0 ? "" : `, the last ${ago(nowOf(view) - activity.lastProgressAtMs)}`;
  const tool = activity.toolRunningSinceMs === null ? "" : " (running a command)";
  return `${what}${last}${tool}. Running ${span(nowOf(view) - (view.runningSinceMs ?? nowOf(view)))}.`;
}

function problemOf(view: TaskView): string {
  const { problem } = view;
  if (problem === null) return "It goes on by itself.";
  const status = problem.httpStatus === null ? "" : `HTTP ${problem.httpStatus}, `;
  const since = `${status}for ${span(nowOf(view) - problem.sinceMs)}`;
  const again = `tries again ${until(view, problem.nextTryAtMs)}`;
  const limit =
    view.phase === "paused" ? "" : `, and so on for up to ${span(problem.retriesUntilMs - nowOf(view))} more`;
  return `${PROBLEMS[problem.class] ?? "The last attempt failed"} (${since}); the child keeps its conversation and ${again}${limit}. Nothing is lost and nothing is asked of you.`;
}

const PROBLEMS: Partial<Record<FailureClass, string>> = {
  provider_transient: "The model provider has trouble",
  edge_block: "The model provider is turning requests away at its edge",
  transport: "The connection to the model provider broke",
  quota: "A usage limit of the provider is reached",
  spawn_error: "The machine could not start the program just now",
  exit_error: "The program asked to be run again",
};

function quietOf(view: TaskView): string {
  const last = view.activity?.lastProgressAtMs ?? nowOf(view);
  return `Nothing was heard of it for ${span(nowOf(view) - last)}.`;
}
