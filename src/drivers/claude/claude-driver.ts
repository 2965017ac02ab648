/**
 * Driver `claude`: Claude Code as a child, one process for an attempt (`claude -p` with `stream-json` in both directions).
 *
 * Invariant: exactly one message is sent in an attempt.
 * Invariant: the session's id is ours: it is reported, and so durable, before the message is sent that makes the session.
 * Invariant: a session that the order names is taken up. Of one that is not there nothing was kept but an unfinished first
 * turn, whose message is at hand: it is made under the same id, and told to look first. With earlier turns in it the context
 * is lost.
 * Absent on purpose: stopping. The engine does that, this only tells the agent to give up its turn.
 */

import type { Child } from "../../ports/children.ts";
import type { AttemptOrder, Driver, DriverEnd, DriverTools } from "../../ports/driver.ts";
import { type Fields, textIn } from "../fields.ts";
import { after } from "../after.ts";
import { COMPLAINT_BYTES_MAX, complaintOf, type Loss, lossVerdict } from "../agent-loss.ts";
import { type BoundedText, createBoundedText } from "../bounded-text.ts";
import { GO_ON, LOOK_FIRST, withHistory } from "../child-prompt.ts";
import { createProgressGate, type ProgressGate } from "../progress-gate.ts";
import { readOutput, untilAborted } from "../read-output.ts";
import { createReporter, garbageNote, type Report } from "../reporter.ts";
import { reportNotStarted, startAgent } from "../start-agent.ts";
import { untilQuiet } from "../until-quiet.ts";
import { type ClaudeConnection, openClaudeConnection } from "./claude-connection.ts";
import { type ClaudeEnd, createClaudeEnd } from "./claude-end.ts";
import { isSessionInUse, isUnknownSession, resultVerdict, textOf } from "./claude-evidence.ts";
import { answerToolRequest } from "./claude-permission.ts";
import { type ClaudeProgram, prepareProgram, type Session, sessionIdOf } from "./claude-program.ts";
import { type ClaudeTools, createClaudeTools } from "./claude-tools.ts";
import { type ClaudeTurn, createClaudeTurn } from "./claude-turn.ts";

const EXIT_MS_MAX = 1_000;
const CANCEL_MS_MAX = 250;

/** How the agent is addressed. */
type Entry = Session & { readonly message: string };

/** A process of the agent. */
type Scene = {
  readonly order: AttemptOrder;
  readonly entry: Entry;
  readonly report: Report;
  readonly driver: DriverTools;
  readonly child: Child;
  readonly connection: ClaudeConnection;
  readonly turn: ClaudeTurn;
  readonly work: ClaudeEnd;
  readonly tools: ClaudeTools;
  readonly progress: ProgressGate;
  readonly stderr: BoundedText;
};

/** `again`: the session is not as the process was told; nothing was done in it. Null: the attempt is over for the engine. */
type Outcome = { readonly kind: "ended"; readonly end: DriverEnd } | { readonly kind: "again"; readonly entry: Entry };

export function createClaudeDriver(): Driver {
  return { name: "claude", onLoss: "resume", run };
}

async function run(order: AttemptOrder, tell: Report, driver: DriverTools): Promise<void> {
  if (driver.signal.aborted) return;
  const report = createReporter(tell, driver.signal);
  const program = await prepareProgram(order);
  if (program.kind === "fault") return reportNotStarted(report, program.fault);
  const second = await runOnce({ order, program, report, driver, mayChange: true }, firstEntry(order));
  if (second !== null) await runOnce({ order, program, report, driver, mayChange: false }, second);
}

type Attempt = {
  readonly order: AttemptOrder;
  readonly program: ClaudeProgram;
  readonly report: Report;
  readonly driver: DriverTools;
  /** Whether the session may be entered in another way if this one fails. */
  readonly mayChange: boolean;
};

/** Runs one process to its end; the entry of the next one, if the session asks for another. */
async function runOnce(attempt: Attempt, entry: Entry): Promise<Entry | null> {
  const { order, program, report, driver } = attempt;
  const [name, ...first] = order.command;
  const command = [name, ...first, ...program.argumentsFor(entry)] as const;
  const child = await startAgent(order, { command, env: program.env, nativeSessionId: entry.id }, report, driver);
  return child === null ? null : follow(attempt, entry, child);
}

async function follow(attempt: Attempt, entry: Entry, child: Child): Promise<Entry | null> {
  const { order, report, driver } = attempt;
  const { clock, signal } = driver;
  using abort = untilAborted(signal);
  const reading = new AbortController();
  const stderr = createBoundedText({ bytesMax: COMPLAINT_BYTES_MAX, headBytes: 0 });
  let lastByteMs = clock.monotonicMs();
  const complaints = readOutput(child.stderr, reading.signal, async (bytes) => {
    lastByteMs = clock.monotonicMs();
    stderr.push(bytes);
  });
  const tools = createClaudeTools();
  const work = createClaudeEnd(clock);
  const progress = createProgressGate(clock, report, () => tools.running() || work.inBackground());
  const turn = createClaudeTurn({ end: work, tools, progress, report });
  const connection = openClaudeConnection(child, clock, {
    onMessage: turn.take,
    onRequest: (request) => answerRequest(request, order, driver),
    onGarbage: (line) => report({ kind: "message", role: "note", text: garbageNote(line) }),
  });
  const scene = { order, entry, report, driver, child, connection, turn, work, tools, progress, stderr };
  try {
    const outcome = await Promise.race([
      converse(scene, () => Promise.race([complaints, untilQuiet(clock, () => lastByteMs)]), attempt.mayChange),
      abort.aborted.then(() => null),
    ]);
    if (outcome === null || signal.aborted) {
      await giveUp(scene);
      return null;
    }
    await connection.close();
    if (outcome.kind === "again") return outcome.entry;
    await progress.flush();
    const complaint = complaintOf(outcome.end, stderr.text());
    if (complaint !== "") await report({ kind: "message", role: "note", text: complaint });
    await report(endEvent(scene, outcome.end));
    return null;
  } finally {
    reading.abort();
    await connection.close();
    await complaints;
  }
}

/** From the message to the end of the work. */
async function converse(scene: Scene, complaintsRead: () => Promise<void>, mayChange: boolean): Promise<Outcome> {
  const { entry, turn, work, connection, stderr, driver } = scene;
  if (driver.signal.aborted) return { kind: "ended", end: { end: "lost" } };
  const content = [{ type: "text", text: entry.message }];
  void connection.send({
    type: "user",
    message: { role: "user", content },
    parent_tool_use_id: null,
    session_id: entry.id,
  });
  const loss = await untilEnd(scene);
  const result = work.result();
  if (result !== null && isUnknownSession(result)) return unknownSession(scene, result, mayChange);
  if (result !== null && stands(work, loss)) {
    const end = resultVerdict(result, turn.error(), driver.clock.wallMs());
    return { kind: "ended", end };
  }
  if (loss === null) return { kind: "ended", end: { end: "lost" } };
  await complaintsRead();
  if (mayChange && !entry.resumed && result === null && isSessionInUse(stderr.text()))
    return {
      kind: "again",
      entry: { id: entry.id, resumed: true, message: GO_ON },
    };
  return { kind: "ended", end: verdictOfLoss(loss, stderr.text()) };
}

/** Null: the work is at its end, and the process too or it was given its time; else why nothing more will come. */
async function untilEnd({ work, connection, child, driver }: Scene): Promise<Loss | null> {
  for (;;) {
    const loss = await Promise.race([work.settled().then(() => null), connection.loss]);
    if (loss !== null) return loss;
    child.closeStdin();
    const late = await Promise.race([connection.loss, after(driver.clock, EXIT_MS_MAX, null)]);
    if (!work.busy()) return null;
    if (late !== null) return late;
  }
}

/** Whether the last result is the end, although the process may have ended before it was asked to. */
function stands(work: ClaudeEnd, loss: Loss | null): boolean {
  if (work.busy()) return false;
  return loss === null || (loss.kind === "ended" && loss.end.kind === "exited" && !isKilled(loss.end));
}

function verdictOfLoss(loss: Loss, stderr: string): DriverEnd {
  const killed = loss.kind === "ended" && loss.end.kind === "exited" && isKilled(loss.end);
  return killed ? { end: "lost" } : lossVerdict(loss, stderr);
}

/** Killed by somebody else: by a signal, or by one that it answered with the exit code that shells give. */
function isKilled({ code, signal }: { readonly code: number | null; readonly signal: string | null }): boolean {
  return signal !== null || (code !== null && code > 128 && code < 160);
}

/** It was bound, but killed before it had written down its first message. Or its record is gone. */
function unknownSession({ order, entry }: Scene, result: Fields, mayChange: boolean): Outcome {
  if (mayChange && entry.resumed && order.history.length === 0) {
    const message = `${LOOK_FIRST}\n\n${order.prompt}`;
    return { kind: "again", entry: { id: entry.id, resumed: false, message } };
  }
  return { kind: "ended", end: { end: "fault", fault: { contextLost: true, ...textOf(result) } } };
}

function firstEntry(order: AttemptOrder): Entry {
  const { nativeSessionId, cause, prompt, history, mark } = order;
  if (nativeSessionId !== null)
    return { id: nativeSessionId, resumed: true, message: cause === "first" ? prompt : GO_ON };
  const message = history.length > 0 ? withHistory(order) : prompt;
  return { id: sessionIdOf(mark), resumed: false, message };
}

function endEvent({ turn, work, tools, order }: Scene, end: DriverEnd): Parameters<Report>[0] {
  const text = end.end === "success" ? finalText(work.result() ?? {}, order.resultBytesMax) : turn.lastText();
  const sideEffects = order.spec.access === "write" || tools.changedSomething();
  return { kind: "end", text, sideEffects, usage: turn.usage(), ...end };
}

function finalText(result: Fields, bytesMax: number): string {
  const text = createBoundedText({ bytesMax });
  text.push(Buffer.from(textIn(result["result"]) ?? ""));
  return text.text();
}

async function answerRequest(request: Fields, { spec }: AttemptOrder, driver: DriverTools): Promise<Fields | null> {
  if (request["subtype"] !== "can_use_tool") return null;
  return answerToolRequest(request, spec.permissions, async (question) =>
    driver.signal.aborted ? null : driver.ask(question),
  );
}

/** The attempt is over for the engine: the agent is told, not waited for. */
async function giveUp({ connection, driver }: Scene): Promise<void> {
  const interrupt = { type: "control_request", request_id: "give-up", request: { subtype: "interrupt" } };
  await Promise.race([connection.send(interrupt), after(driver.clock, CANCEL_MS_MAX, null)]);
}
