/**
 * Driver `codex`: Codex CLI through its app server, one process for an attempt, one thread for a task.
 *
 * Invariant: exactly one turn is started in an attempt, after its thread's id was reported and so is durable.
 * Invariant: success is Codex's own word that the turn was completed, and a last message; a failed turn is told as failed.
 * Absent on purpose: retries and time limits of a turn. Codex's own retries are shown as notes; a turn that hangs is the
 * engine's to end. Stopping, too: this only tells Codex to give up its turn.
 */

import type { AttemptOrder, Driver, DriverEnd, DriverTools } from "../../ports/driver.ts";
import type { Child } from "../../ports/children.ts";
import { type Fields, fieldsIn, textIn } from "../fields.ts";
import { after } from "../after.ts";
import { COMPLAINT_BYTES_MAX, complaintOf, lossVerdict } from "../agent-loss.ts";
import { type BoundedText, createBoundedText } from "../bounded-text.ts";
import { GO_ON, withHistory } from "../child-prompt.ts";
import { createProgressGate } from "../progress-gate.ts";
import { readOutput, untilAborted } from "../read-output.ts";
import { createReporter, garbageNote, type Report } from "../reporter.ts";
import { startAgent } from "../start-agent.ts";
import { type CodexConnection, openCodexConnection, type Reply } from "./codex-connection.ts";
import { resetsInMs, turnEvidence } from "./codex-evidence.ts";
import { type CodexItems, createCodexItems } from "./codex-items.ts";
import { ALLOW_ONCE, answersTo, approvalOf } from "./codex-permission.ts";
import { commandOf } from "./codex-program.ts";
import { CALL_MS_MAX, callCodex, type OpenedThread, openThread } from "./codex-session.ts";
import { type CodexTurn, createCodexTurn } from "./codex-turn.ts";

const EXIT_MS_MAX = 1_000;
const INTERRUPT_MS_MAX = 250;

/** An attempt under way. */
type Scene = {
  readonly order: AttemptOrder;
  readonly tools: DriverTools;
  readonly child: Child;
  readonly connection: CodexConnection;
  readonly turn: CodexTurn;
  readonly items: CodexItems;
  readonly stderr: BoundedText;
  readonly report: Report;
  /** Set when it is known. */
  threadId: string | null;
  /** Whether the agent has been told the task. */
  prompted: boolean;
};

export function createCodexDriver(): Driver {
  return { name: "codex", onLoss: "resume", run };
}

async function run(order: AttemptOrder, tell: Report, tools: DriverTools): Promise<void> {
  const { signal } = tools;
  if (signal.aborted) return;
  const command = await commandOf(order);
  if (signal.aborted) return;
  const report = createReporter(tell, signal);
  const child = await startAgent(order, { ...order, command }, report, tools);
  if (child !== null) await follow(child, order, report, tools);
}

async function follow(child: Child, order: AttemptOrder, report: Report, tools: DriverTools): Promise<void> {
  using abort = untilAborted(tools.signal);
  const reading = new AbortController();
  const stderr = createBoundedText({ bytesMax: COMPLAINT_BYTES_MAX, headBytes: 0 });
  const items = createCodexItems();
  const progress = createProgressGate(tools.clock, report, items.running);
  const turn = createCodexTurn({ items, progress, report, resultBytesMax: order.resultBytesMax });
  const complaints = readOutput(child.stderr, reading.signal, async (bytes) => stderr.push(bytes));
  const connection = openCodexConnection(child, tools.clock, {
    onNotification: turn.take,
    onRequest: async (method, params) => {
      await progress.note(0);
      return answerOf(method, params, { order, tools, items, report });
    },
    onGarbage: (line) => report({ kind: "message", role: "note", text: garbageNote(line) }),
  });
  const scene: Scene = {
    order,
    tools,
    child,
    connection,
    turn,
    items,
    stderr,
    report,
    threadId: null,
    prompted: false,
  };
  try {
    const ending = await Promise.race([converse(scene), abort.aborted.then(() => null)]);
    if (ending === null || tools.signal.aborted) return await giveUp(scene);
    const { last, partial } = await turn.end();
    await leave(scene);
    await connection.close();
    await progress.flush();
    const sideEffects = (scene.prompted && order.spec.access === "write") || items.changedSomething();
    const verdict: DriverEnd =
      ending.end === "success" && last === null ? { end: "fault", fault: { empty: true } } : ending;
    const complaint = complaintOf(verdict, stderr.text());
    if (complaint !== "") await report({ kind: "message", role: "note", text: complaint });
    const text = ending.end === "success" ? (last ?? partial) : partial;
    await report({ kind: "end", text, sideEffects, usage: turn.usage(), ...verdict });
  } finally {
    reading.abort();
    await connection.close();
    await complaints;
  }
}

async function converse(scene: Scene): Promise<DriverEnd> {
  const { order, connection, turn, report, child, tools } = scene;
  const thread = await openThread(connection, order);
  if (thread.kind === "fault") return { end: "fault", fault: thread.fault };
  if (thread.kind === "lost") return lossEnd(scene);
  const { threadId } = thread;
  await report({ kind: "bound", process: child.process, nativeSessionId: threadId });
  if (tools.signal.aborted) return { end: "lost" };
  scene.threadId = threadId;
  turn.begin(threadId, !thread.resumed);
  scene.prompted = true;
  const { effort } = order.spec.options;
  const answer = await callCodex(connection, "turn/start", {
    threadId,
    input: [{ type: "text", text: promptFor(order, thread), text_elements: [] }],
    ...(effort === undefined ? {} : { effort }),
  });
  if (answer.kind === "fault") return { end: "fault", fault: answer.fault };
  if (answer.kind === "lost") return lossEnd(scene);
  const ended = await Promise.race([turn.completed, connection.loss.then(() => null)]);
  return ended === null ? lossEnd(scene) : endOf(ended, resetsInMs(turn.limits(), tools.clock.wallMs()));
}

/** A thread whose record holds the prompt is told to go on; it would do finished steps twice (P6). */
function promptFor(order: AttemptOrder, { resumed, told }: OpenedThread): string {
  if (!resumed) return order.history.length > 0 ? withHistory(order) : order.prompt;
  return told && order.cause !== "first" ? GO_ON : order.prompt;
}

function endOf({ status, error }: Fields, resetMs: number | null): DriverEnd {
  if (status === "completed") return { end: "success", evidence: "explicit" };
  if (status === "failed") return { end: "fault", fault: turnEvidence(fieldsIn(error), resetMs) };
  const text = textIn(fieldsIn(error)["message"]);
  const stopReason = textIn(status) ?? "none";
  return { end: "fault", fault: { stopReason, ...(text === null ? {} : { text }) } };
}

/** Nothing more will come from the agent, and it has not said how its work ended. */
async function lossEnd({ connection, stderr, threadId }: Scene): Promise<DriverEnd> {
  const loss = await connection.loss;
  // Told to end by somebody else (SIGTERM), an app server that works ends as if all were well.
  const ended = loss.kind === "ended" && loss.end.kind === "exited" && loss.end.code === 0;
  return ended && threadId !== null ? { end: "lost" } : lossVerdict(loss, stderr.text());
}

/** With its input closed Codex puts its house in order; whoever does not is stopped by the engine. */
async function leave({ child, tools }: Scene): Promise<void> {
  child.closeStdin();
  await Promise.race([child.ended, after(tools.clock, EXIT_MS_MAX, null)]);
}

/** The attempt is over for the engine: Codex is told, not waited for. */
async function giveUp({ connection, tools, threadId, turn }: Scene): Promise<void> {
  const turnId = turn.id();
  if (threadId === null || turnId === null) return;
  const told = connection.call("turn/interrupt", { threadId, turnId }, CALL_MS_MAX);
  await Promise.race([told, after(tools.clock, INTERRUPT_MS_MAX, null)]);
}

type Asked = Pick<Scene, "order" | "tools" | "items" | "report">;

async function answerOf(method: string, params: Fields, { order, tools, items, report }: Asked): Promise<Reply> {
  if (method === "item/tool/requestUserInput")
    return answersTo(params, async (question) => (tools.signal.aborted ? null : tools.ask(question)));
  const approval = approvalOf(method, params, items);
  if (approval !== null) {
    if (order.spec.permissions === "full") return approval.reply(ALLOW_ONCE);
    const answer = tools.signal.aborted ? null : await tools.ask(approval.question);
    return approval.reply(answer?.kind === "option" ? answer.optionId : null);
  }
  if (method !== "mcpServer/elicitation/request") return null;
  const text = `MCP server ${textIn(params["serverName"]) ?? ""} asked a person something; there is none here.`;
  await report({ kind: "message", role: "note", text });
  return { action: "cancel", content: null, _meta: null };
}
