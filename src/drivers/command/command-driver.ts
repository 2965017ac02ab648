/**
 * Driver `command`: any program as a child (contract §10).
 *
 * The task comes on standard input or in a file, the answer is what it writes to standard output. Steps are lines of standard
 * output; standard error is a sign of life only, and, when the program fails, evidence and a note in the conversation.
 *
 * Invariant: the program's environment is the order's and the variables named here, nothing of the daemon's.
 * Invariant: the end waits for output that is still in the pipe, but not for a background process that holds the pipe open.
 * Absent on purpose: sessions and questions. A program that is continued is run again with its history.
 */

import type { FaultEvidence } from "../../core/failure.ts";
import type { Child, ChildEnd } from "../../ports/children.ts";
import type { AttemptOrder, Driver, DriverEnd, DriverEvent, DriverTools } from "../../ports/driver.ts";
import { type BoundedText, createBoundedText } from "../bounded-text.ts";
import { createProgressGate } from "../progress-gate.ts";
import { readOutput, untilAborted } from "../read-output.ts";
import { untilQuiet } from "../until-quiet.ts";
import { type CommandInput, prepareInput } from "./command-input.ts";

const EXIT_RUN_AGAIN = 75;
const FAULT_CHARACTERS_MAX = 2_000;
/** Enough for that many characters of any script. */
const STDERR_BYTES_MAX = 4 * FAULT_CHARACTERS_MAX;
const LF = 10;

type Report = (event: DriverEvent) => Promise<void>;
type Output = { readonly stdout: BoundedText; readonly stderr: BoundedText };

export function createCommandDriver(): Driver {
  return { name: "command", onLoss: "fail", run };
}

async function run(order: AttemptOrder, report: Report, tools: DriverTools): Promise<void> {
  const input = await prepareInput(order);
  if (tools.signal.aborted) return;
  if ("spawnCode" in input) return report(faultEnd(input));
  const started = await tools.children.spawn(spawnSpec(order, input));
  if (tools.signal.aborted) return;
  if (started.kind === "failed") return report(faultEnd({ spawnCode: started.code, text: started.message }));
  await report({ kind: "bound", process: started.child.process, nativeSessionId: null });
  const output: Output = {
    stdout: createBoundedText({ bytesMax: order.resultBytesMax }),
    stderr: createBoundedText({ bytesMax: STDERR_BYTES_MAX, headBytes: 0 }),
  };
  const end = await follow(started.child, output, report, tools);
  if (end === null) return;
  const last = endEvent(end, output, order);
  const complaint = complaintOf(output.stderr);
  if (last.end === "fault" && complaint !== "") await report({ kind: "message", role: "note", text: complaint });
  await report(last);
}

function spawnSpec(
  { mark, command, spec, env }: AttemptOrder,
  input: CommandInput,
): Parameters<DriverTools["children"]["spawn"]>[0] {
  return { mark, command, cwd: spec.cwd, env: { ...env, ...input.env }, stdin: input.stdin };
}

/** Reads the program to its end; null if the attempt was over before. */
async function follow(child: Child, output: Output, report: Report, tools: DriverTools): Promise<ChildEnd | null> {
  const { clock, signal } = tools;
  using abort = untilAborted(signal);
  const reading = new AbortController();
  const progress = createProgressGate(clock, report);
  let lastByteMs = clock.monotonicMs();
  const take = (text: BoundedText, countsLines: boolean) => (bytes: Uint8Array) => {
    text.push(bytes);
    lastByteMs = clock.monotonicMs();
    return progress.note(countsLines ? linesIn(bytes) : 0);
  };
  const read = Promise.all([
    readOutput(child.stdout, reading.signal, take(output.stdout, true)),
    readOutput(child.stderr, reading.signal, take(output.stderr, false)),
  ]);
  try {
    const end = await Promise.race([child.ended, abort.aborted.then(() => null), read.then(() => child.ended)]);
    if (end !== null) await Promise.race([read, abort.aborted, untilQuiet(clock, () => lastByteMs)]);
    reading.abort();
    await read;
    if (end === null || signal.aborted) return null;
    await progress.flush();
    return end;
  } finally {
    reading.abort();
  }
}

function endEvent(
  end: ChildEnd,
  { stdout, stderr }: Output,
  { spec }: AttemptOrder,
): Extract<DriverEvent, { readonly kind: "end" }> {
  const written = stdout.text().replace(/[\r\n]+$/, "");
  const text = written.trim() === "" ? null : written;
  return { kind: "end", text, sideEffects: spec.access === "write", usage: null, ...verdictOf(end, text, stderr) };
}

function verdictOf(end: ChildEnd, text: string | null, stderr: BoundedText): DriverEnd {
  if (end.kind !== "exited") return { end: "lost" };
  const { code, signal } = end;
  if (code === 0)
    return text === null ? { end: "fault", fault: { empty: true } } : { end: "success", evidence: "assumed" };
  if (code === EXIT_RUN_AGAIN) return { end: "fault", fault: { rerun: true } };
  const complaint = complaintOf(stderr);
  return { end: "fault", fault: { exit: { code, signal }, ...(complaint === "" ? {} : { text: complaint }) } };
}

/** The end of what it wrote to standard error. */
function complaintOf(stderr: BoundedText): string {
  return stderr.text().trim().slice(-FAULT_CHARACTERS_MAX).toWellFormed();
}

/** The end of a program that never ran. */
function faultEnd(fault: FaultEvidence): DriverEvent {
  return { kind: "end", end: "fault", fault, text: null, sideEffects: false, usage: null };
}

function linesIn(bytes: Uint8Array): number {
  let lines = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) lines++;
  return lines;
}
