/**
 * Driver `acp`: any agent that speaks the Agent Client Protocol, version 1, over its standard input and output.
 *
 * Invariant: exactly one prompt is sent in an attempt; agents answer a second one in ways of their own, or never.
 * Invariant: the session's id is reported, and so durable, before the prompt is sent.
 * Invariant: success is never more than assumed. An agent that nobody has profiled may end a turn well after its provider
 * failed, with the error as its last message; that cannot be told from an answer here.
 * Absent on purpose: files and terminals of the client, and input forms; an agent that asks for them is told that there are
 * none. Stopping: the engine does that, this only tells the agent to give up its turn.
 */

import { methods, type RequestPermissionResponse, RequestError } from "@agentclientprotocol/sdk";
import type { FaultEvidence } from "../../core/failure.ts";
import type { Child } from "../../ports/children.ts";
import type { AttemptOrder, Driver, DriverEnd, DriverTools } from "../../ports/driver.ts";
import { after } from "../after.ts";
import { COMPLAINT_BYTES_MAX, complaintOf, lossVerdict } from "../agent-loss.ts";
import { type BoundedText, createBoundedText } from "../bounded-text.ts";
import { createProgressGate } from "../progress-gate.ts";
import { readOutput, untilAborted } from "../read-output.ts";
import { createReporter, garbageNote, type Report } from "../reporter.ts";
import { startAgent } from "../start-agent.ts";
import { type AcpConnection, type AcpListener, type Answer, openAcpConnection } from "./acp-connection.ts";
import { errorEvidence } from "../rpc-evidence.ts";
import { type Fields, fieldsIn, textIn } from "../fields.ts";
import { allowedBy, optionsIn, questionOf } from "./acp-permission.ts";
import { promptFor } from "./acp-prompt.ts";
import { openSession } from "./acp-session.ts";
import { createToolCalls, type ToolCalls } from "./acp-tools.ts";
import { createTurn, type Turn } from "./acp-turn.ts";

const CLOSE_MS_MAX = 2_000;
const EXIT_MS_MAX = 1_000;
const CANCEL_MS_MAX = 250;

/** An attempt under way. */
type Scene = {
  readonly order: AttemptOrder;
  readonly tools: DriverTools;
  readonly child: Child;
  readonly connection: AcpConnection;
  readonly turn: Turn;
  readonly calls: ToolCalls;
  readonly stderr: BoundedText;
  readonly report: Report;
  /** Set when it is known. */
  sessionId: string | null;
  /** Whether the agent has been told the task. */
  prompted: boolean;
};

/** How it came out; `canClose`: the session should be closed. */
type Ending = DriverEnd & { readonly answer: Fields; readonly canClose: boolean };

export function createAcpDriver(): Driver {
  return { name: "acp", onLoss: "resume", run };
}

async function run(order: AttemptOrder, tell: Report, tools: DriverTools): Promise<void> {
  const { signal } = tools;
  if (signal.aborted) return;
  const report = createReporter(tell, signal);
  const child = await startAgent(order, order, report, tools);
  if (child !== null) await follow(child, order, report, tools);
}

async function follow(child: Child, order: AttemptOrder, report: Report, tools: DriverTools): Promise<void> {
  using abort = untilAborted(tools.signal);
  const reading = new AbortController();
  const stderr = createBoundedText({ bytesMax: COMPLAINT_BYTES_MAX, headBytes: 0 });
  const calls = createToolCalls();
  const progress = createProgressGate(tools.clock, report, calls.running);
  const turn = createTurn({ calls, progress, report, resultBytesMax: order.resultBytesMax });
  const complaints = readOutput(child.stderr, reading.signal, async (bytes) => stderr.push(bytes));
  const listener: AcpListener = {
    onUpdate: turn.take,
    onLife: () => progress.note(0),
    onPermission: (request) => answerPermission(request, calls, order, tools),
    onGarbage: (line) => report({ kind: "message", role: "note", text: garbageNote(line) }),
  };
  const connection = openAcpConnection(child, tools.clock, listener);
  const scene: Scene = {
    order,
    tools,
    child,
    connection,
    turn,
    calls,
    stderr,
    report,
    sessionId: null,
    prompted: false,
  };
  try {
    const ending = await Promise.race([converse(scene), abort.aborted.then(() => null)]);
    if (ending === null || tools.signal.aborted) return await giveUp(scene);
    const { last, partial } = await turn.end();
    await leave(scene, ending);
    await connection.close();
    await progress.flush();
    const usage = turn.usage(ending.answer);
    const verdict = verdictOf(ending, last);
    const complaint = complaintOf(verdict, stderr.text());
    if (complaint !== "") await report({ kind: "message", role: "note", text: complaint });
    await report({ kind: "end", text: partial, sideEffects: mayHaveChanged(scene), usage, ...verdict });
  } finally {
    reading.abort();
    await connection.close();
    await complaints;
  }
}

async function converse(scene: Scene): Promise<Ending> {
  const { order, connection, turn, report, child } = scene;
  const session = await openSession(connection, order);
  if (session.kind !== "opened")
    return endingOf(session.kind === "lost" ? await lossEnd(scene) : faultEnd(session.fault));
  const { sessionId, canClose, notes } = session;
  for (const text of notes) await report({ kind: "message", role: "note", text });
  await report({ kind: "bound", process: child.process, nativeSessionId: sessionId });
  if (scene.tools.signal.aborted) return endingOf({ end: "lost" });
  scene.sessionId = sessionId;
  turn.begin(sessionId, session.resumed);
  scene.prompted = true;
  const prompt = [{ type: "text" as const, text: promptFor(order, session) }];
  const answer = await connection.call(methods.agent.session.prompt, { sessionId, prompt });
  if (answer.kind === "result") return { ...stopOf(answer.result), answer: answer.result, canClose };
  return endingOf(await failureOf(scene, answer));
}

async function failureOf(scene: Scene, answer: Exclude<Answer, { readonly kind: "result" }>): Promise<DriverEnd> {
  if (answer.kind !== "error") return lossEnd(scene);
  const { partial } = await scene.turn.end();
  return faultEnd(errorEvidence(answer.error, partial));
}

function endingOf(end: DriverEnd): Ending {
  return { ...end, answer: {}, canClose: false };
}

function faultEnd(fault: FaultEvidence): DriverEnd {
  return { end: "fault", fault };
}

/** An answer to the prompt; success is still without its text. */
function stopOf({ stopReason }: Fields): DriverEnd {
  const reason = textIn(stopReason) ?? "none";
  if (reason === "end_turn") return { end: "success", evidence: "assumed" };
  return faultEnd({ stopReason: reason === "max_turn_requests" ? "max_turns" : reason });
}

function verdictOf(ending: Ending, last: string | null): DriverEnd {
  if (ending.end === "success")
    return last === null ? faultEnd({ empty: true }) : { end: "success", evidence: ending.evidence };
  return ending.end === "fault" ? faultEnd(ending.fault) : { end: "lost" };
}

/** Nothing more will come from the agent, and it has not said how its work ended. */
async function lossEnd(scene: Scene): Promise<DriverEnd> {
  const loss = await scene.connection.loss;
  return lossVerdict(loss, scene.stderr.text());
}

function mayHaveChanged({ order, prompted, calls }: Scene): boolean {
  return (prompted && order.spec.access === "write") || calls.changedSomething();
}

/** After a good turn the agent may put its house in order; whoever does not is stopped by the engine. */
async function leave({ connection, child, tools, sessionId }: Scene, ending: Ending): Promise<void> {
  if (ending.end !== "success") return;
  if (ending.canClose && sessionId !== null)
    await connection.call(methods.agent.session.close, { sessionId }, CLOSE_MS_MAX);
  child.closeStdin();
  await Promise.race([child.ended, after(tools.clock, EXIT_MS_MAX, null)]);
}

/** The attempt is over for the engine: the agent is told, not waited for. */
async function giveUp({ connection, tools, sessionId }: Scene): Promise<void> {
  if (sessionId !== null) await Promise.race([connection.cancel(sessionId), after(tools.clock, CANCEL_MS_MAX, null)]);
}

async function answerPermission(
  request: Fields,
  calls: ToolCalls,
  { spec }: AttemptOrder,
  tools: DriverTools,
): Promise<RequestPermissionResponse> {
  const options = optionsIn(request);
  if (options.length === 0) throw RequestError.invalidParams({ options: "there is none to choose from" });
  const call = calls.withFields(fieldsIn(request["toolCall"]));
  const allowed = await allowedBy(spec.permissions, call, options, spec.cwd);
  if (allowed !== null) return selected(allowed);
  const answer = tools.signal.aborted ? null : await tools.ask(questionOf(call, options));
  return answer?.kind === "option" ? selected(answer.optionId) : { outcome: { outcome: "cancelled" } };
}

function selected(optionId: string): RequestPermissionResponse {
  return { outcome: { outcome: "selected", optionId } };
}
