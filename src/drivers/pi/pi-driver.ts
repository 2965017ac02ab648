/**
 * Driver `pi`: Pi in its own mode for programs (`pi --mode rpc`), over its standard input and output.
 *
 * Invariant: exactly one prompt is sent in an attempt, after the session's id was reported and so is durable.
 * Invariant: success is explicit: Pi says that it is settled, and its last message stopped of its own accord, with text. An
 * error stands in that message; neither the exit status nor a text says how a run came out.
 * Absent on purpose: permission levels. Pi asks nobody before it uses a tool, but for extensions of its user's; so it needs an
 * operator's trust. Stopping: the engine does that, this only tells Pi to give up its run.
 */

import type { FaultEvidence } from "../../core/failure.ts";
import type { Child } from "../../ports/children.ts";
import type { AttemptOrder, Driver, DriverEnd, DriverTools } from "../../ports/driver.ts";
import type { Fields } from "../fields.ts";
import { after } from "../after.ts";
import { COMPLAINT_BYTES_MAX, complaintOf, lossVerdict } from "../agent-loss.ts";
import { type BoundedText, createBoundedText } from "../bounded-text.ts";
import { createProgressGate, type ProgressGate } from "../progress-gate.ts";
import { readOutput, untilAborted } from "../read-output.ts";
import { createReporter, garbageNote, type Report } from "../reporter.ts";
import { reportNotStarted, startAgent } from "../start-agent.ts";
import { untilQuiet } from "../until-quiet.ts";
import { openPiConnection, type PiConnection } from "./pi-connection.ts";
import { dialogAnswer, dialogIn } from "./pi-dialog.ts";
import { outcomeEvidence, writtenEvidence } from "./pi-evidence.ts";
import { commandFor, openPiSession } from "./pi-session.ts";
import { createPiTools } from "./pi-tools.ts";
import { createPiTurn, type PiTurn } from "./pi-turn.ts";

const EXIT_MS_MAX = 1_000;
const ABORT_MS_MAX = 250;

const NEW_SESSION = /^Warning: No project session found with id .{0,300}$/gm;

/** An attempt under way. */
type Scene = {
  readonly order: AttemptOrder;
  readonly tools: DriverTools;
  readonly child: Child;
  readonly connection: PiConnection;
  readonly turn: PiTurn;
  readonly stderr: BoundedText;
  readonly report: Report;
  /** Whether Pi has been told the task. */
  prompted: boolean;
};

type Ended = { readonly end: DriverEnd; readonly text: string | null };

export function createPiDriver(): Driver {
  return { name: "pi", onLoss: "resume", run };
}

async function run(order: AttemptOrder, tell: Report, tools: DriverTools): Promise<void> {
  const { signal } = tools;
  if (signal.aborted) return;
  const report = createReporter(tell, signal);
  const start = await commandFor(order);
  if (start.kind === "fault") return reportNotStarted(report, start.fault);
  const child = await startAgent(order, { ...order, command: start.command }, report, tools);
  if (child !== null) await follow(child, order, report, tools);
}

async function follow(child: Child, order: AttemptOrder, report: Report, tools: DriverTools): Promise<void> {
  using abort = untilAborted(tools.signal);
  const reading = new AbortController();
  const stderr = createBoundedText({ bytesMax: COMPLAINT_BYTES_MAX, headBytes: 0 });
  const calls = createPiTools();
  const progress = createProgressGate(tools.clock, report, calls.running);
  const turn = createPiTurn({ calls, progress, report, resultBytesMax: order.resultBytesMax });
  let complainedMs = tools.clock.monotonicMs();
  const complaints = readOutput(child.stderr, reading.signal, async (bytes) => {
    stderr.push(bytes);
    complainedMs = tools.clock.monotonicMs();
  });
  const connection: PiConnection = openPiConnection(child, tools.clock, {
    onEvent: (event) =>
      event["type"] === "extension_ui_request" ? takeDialog(event, { connection, progress, tools }) : turn.take(event),
    onLife: () => progress.note(0),
    onGarbage: (line) => report({ kind: "message", role: "note", text: garbageNote(line) }),
  });
  const scene: Scene = { order, tools, child, connection, turn, stderr, report, prompted: false };
  try {
    const ended = await Promise.race([converse(scene), abort.aborted.then(() => null)]);
    if (ended === null || tools.signal.aborted) return await giveUp(scene);
    if (ended.end.end === "success") await leave(scene);
    await connection.close();
    await progress.flush();
    const sideEffects = (scene.prompted && order.spec.access === "write") || calls.changedSomething();
    // What it complains of comes by a pipe of its own.
    if (ended.end.end === "fault") await Promise.race([untilQuiet(tools.clock, () => complainedMs), abort.aborted]);
    const complaint = complaintOf(ended.end, complaintsIn(stderr));
    if (complaint !== "") await report({ kind: "message", role: "note", text: complaint });
    await report({ kind: "end", text: ended.text, sideEffects, usage: turn.usage(), ...ended.end });
  } finally {
    reading.abort();
    await connection.close();
    await complaints;
  }
}

async function converse(scene: Scene): Promise<Ended> {
  const { order, connection, turn, report, child, tools } = scene;
  const session = await openPiSession(connection, order);
  if (session.kind === "fault") return faulty(session.fault, null);
  if (session.kind === "lost") return lossEnd(scene);
  for (const text of session.notes) await report({ kind: "message", role: "note", text });
  await report({ kind: "bound", process: child.process, nativeSessionId: session.sessionId });
  if (tools.signal.aborted) return { end: { end: "lost" }, text: null };
  turn.begin();
  scene.prompted = true;
  const answer = await connection.call({ type: "prompt", message: session.prompt });
  if (answer.kind === "refused") return faulty(writtenEvidence(answer.error), null);
  if (answer.kind === "done" && answer.data["disposition"] === "handled")
    return faulty({ text: "an extension of Pi took the task for itself, and no run began" }, null);
  const outcome = await Promise.race([turn.settled, connection.loss.then(() => null)]);
  if (outcome === null) return lossEnd(scene);
  const fault = outcomeEvidence(outcome);
  if (fault !== null) return faulty(fault, turn.partial());
  return { end: { end: "success", evidence: "explicit" }, text: outcome.text };
}

function faulty(fault: FaultEvidence, text: string | null): Ended {
  return { end: { end: "fault", fault }, text };
}

/** Nothing more will come from Pi, and it has not said how its work ended. */
async function lossEnd(scene: Scene): Promise<Ended> {
  const loss = await scene.connection.loss;
  const text = scene.turn.partial();
  const end = lossVerdict(loss, complaintsIn(scene.stderr));
  // Before it was told its task, what it complained of is why it could not begin.
  if (scene.prompted || end.end !== "fault") return { end, text };
  const { exit, text: complaint } = end.fault;
  if (exit === undefined || complaint === undefined) return { end, text };
  return faulty({ ...writtenEvidence(complaint), exit }, text);
}

/** Without what Pi says of every session that begins. */
function complaintsIn(stderr: BoundedText): string {
  return stderr.text().replace(NEW_SESSION, "");
}

/** After a good run Pi may put its house in order; if it does not, it is stopped by the engine. */
async function leave({ child, tools }: Scene): Promise<void> {
  child.closeStdin();
  await Promise.race([child.ended, after(tools.clock, EXIT_MS_MAX, null)]);
}

/** The attempt is over for the engine: Pi is told, not waited for. */
async function giveUp({ connection, tools, prompted }: Scene): Promise<void> {
  if (prompted) await Promise.race([connection.send({ type: "abort" }), after(tools.clock, ABORT_MS_MAX, null)]);
}

/** Asked beside the reading: what Pi tells meanwhile is still heard. */
function takeDialog(
  request: Fields,
  { connection, progress, tools }: Pick<Scene, "connection" | "tools"> & { readonly progress: ProgressGate },
): Promise<void> {
  const question = dialogIn(request);
  if (question === null) return progress.note(0);
  const asked = tools.signal.aborted ? Promise.resolve(null) : tools.ask(question);
  asked
    .catch(() => null)
    .then((answer) => connection.send(dialogAnswer(request, answer)))
    .catch(() => undefined);
  return progress.note(0);
}
