/**
 * Driver `fake`: an agent that does what a script says, without a process and without a provider. For failure injection in a
 * running daemon and for tests; the script is described in `fake-script.ts`.
 *
 * It behaves like an agent with sessions: an attempt of the same run goes on after the last finished step, a continuation
 * begins its own script in the same session.
 *
 * Invariant: it waits by the daemon's clock, by files and by `release`, never by anything else, so a step clock moves it.
 * Absent on purpose: a process. Driver `command` with a scripted program covers those.
 */

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { assertNever } from "../../core/assert.ts";
import type { FaultEvidence } from "../../core/failure.ts";
import type { Usage } from "../../core/task.ts";
import type { AttemptOrder, Driver, DriverEnd, DriverEvent, DriverTools } from "../../ports/driver.ts";
import { untilAborted } from "../read-output.ts";
import { createFakeMemories, type FakeMemory } from "./fake-memory.ts";
import { type FakeStep, parseFakeScript } from "./fake-script.ts";

export type FakeDriver = Driver & {
  /** Lets everything go on that waits, or will wait, for this name. */
  release(name: string): void;
};

type StepResult =
  | { readonly kind: "next" }
  /** The step stays where it is; the attempt says this last. */
  | { readonly kind: "stop"; readonly event: DriverEvent }
  /** The attempt is over for the engine; nothing more is said. */
  | { readonly kind: "gone" };

type Scene = {
  readonly order: AttemptOrder;
  readonly tools: DriverTools;
  readonly memory: FakeMemory;
  readonly report: (event: DriverEvent) => Promise<void>;
  /** Resolves when the name was released. */
  readonly released: (name: string) => Promise<void>;
};

const FILE_POLL_MS = 20;
const NEXT: StepResult = { kind: "next" };
const GONE: StepResult = { kind: "gone" };

export function createFakeDriver(): FakeDriver {
  const memories = createFakeMemories();
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const gateOf = (name: string): PromiseWithResolvers<void> => {
    const gate = gates.get(name) ?? Promise.withResolvers<void>();
    gates.set(name, gate);
    return gate;
  };
  const run: Driver["run"] = async (order, report, tools) => {
    const session = order.nativeSessionId ?? `fake-${order.mark}`;
    const parsed = parseFakeScript(order.spec.options["script"] ?? order.prompt);
    await report({ kind: "bound", process: null, nativeSessionId: session });
    if ("error" in parsed) return report(malformed(parsed.error));
    const { steps, stateFile } = parsed.script;
    const memory = memories.recall(session, stateFile, order.cause === "first");
    const scene: Scene = { order, tools, memory, report, released: (name) => gateOf(name).promise };
    const last = await play(steps, scene, () => memories.keep(session, stateFile, memory));
    if (last !== null) await report(last);
  };
  return { name: "fake", onLoss: "resume", run, release: (name) => gateOf(name).resolve() };
}

/** Goes on from where the memory stands. What is to be said last, or null. `keep` stores the memory after each change. */
async function play(steps: readonly FakeStep[], scene: Scene, keep: () => void): Promise<DriverEvent | null> {
  const { memory, tools } = scene;
  for (let step = steps[memory.position]; step !== undefined; step = steps[memory.position]) {
    const result = tools.signal.aborted ? GONE : await perform(step, scene);
    if (result.kind === "next") {
      memory.position += 1;
      memory.faults = 0;
    }
    keep();
    if (result.kind === "gone") return null;
    if (result.kind !== "next") return result.event;
  }
  return ended(memory, { text: null, evidence: "explicit", fault: null, usage: null });
}

async function perform(step: FakeStep, scene: Scene): Promise<StepResult> {
  const { memory, order, report, tools } = scene;
  switch (step.do) {
    case "say":
      memory.said += step.text;
      return NEXT;
    case "sayAnswer":
      memory.said += String(memory.answer);
      return NEXT;
    case "progress":
      await report({ kind: "progress", steps: step.steps, toolRunning: step.toolRunning });
      return NEXT;
    case "message":
      await report({ kind: "message", role: step.role, text: step.text });
      return NEXT;
    case "sleep":
      return unlessAborted(tools, passTime(tools, step.ms));
    case "waitFile":
      return waitForFile(resolve(order.spec.cwd, step.path), tools);
    case "waitFor":
      return unlessAborted(tools, scene.released(step.name));
    case "fault":
      return faultUntil(step.times, step.fault, memory);
    case "ask":
      return askAndRemember(step, scene);
    case "write":
      await writeFile(resolve(order.spec.cwd, step.path), step.text, { flag: step.append ? "a" : "w" });
      memory.wrote = true;
      return NEXT;
    case "end":
      return { kind: "stop", event: ended(memory, step) };
    case "lost":
      return { kind: "stop", event: endEvent(memory, null, { end: "lost" }) };
    case "hang":
      return unlessAborted(tools, forever());
    case "throw":
      throw new Error("the script told the fake driver to throw");
    default:
      return assertNever(step);
  }
}

/** Asked again by the next attempt where this one ended before an answer came. */
async function askAndRemember(step: Extract<FakeStep, { readonly do: "ask" }>, scene: Scene): Promise<StepResult> {
  const { ask, prompt, optionIds, labels, action } = step;
  const asked = scene.tools.ask({ ask, prompt, optionIds, labels, action });
  const result = await unlessAborted(
    scene.tools,
    asked.then(() => undefined),
  );
  const answer = result.kind === "gone" ? null : await asked;
  if (answer === null) return GONE;
  scene.memory.answer = answer.kind === "option" ? answer.optionId : answer.text;
  return NEXT;
}

function faultUntil(times: number, fault: FaultEvidence, memory: FakeMemory): StepResult {
  if (memory.faults >= times) return NEXT;
  memory.faults += 1;
  return { kind: "stop", event: endEvent(memory, null, { end: "fault", fault }) };
}

type EndStep = Omit<Extract<FakeStep, { readonly do: "end" }>, "do">;

function ended(memory: FakeMemory, { text, evidence, fault, usage }: EndStep): DriverEvent {
  if (fault !== null) return endEvent(memory, usage, { end: "fault", fault });
  const said = text ?? memory.said;
  if (said === "") return endEvent(memory, usage, { end: "fault", fault: { empty: true } });
  return endEvent({ ...memory, said }, usage, { end: "success", evidence });
}

function endEvent({ said, wrote }: FakeMemory, usage: Usage | null, end: DriverEnd): DriverEvent {
  return { kind: "end", text: said === "" ? null : said, sideEffects: wrote, usage, ...end };
}

function malformed(reason: string): DriverEvent {
  const fault = { httpStatus: 400, text: `fake script: ${reason}` };
  return { kind: "end", end: "fault", fault, text: null, sideEffects: false, usage: null };
}

async function unlessAborted({ signal }: DriverTools, work: Promise<void>): Promise<StepResult> {
  using abort = untilAborted(signal);
  await Promise.race([work, abort.aborted]);
  return signal.aborted ? GONE : NEXT;
}

async function waitForFile(path: string, tools: DriverTools): Promise<StepResult> {
  while (!existsSync(path)) {
    const result = await unlessAborted(tools, passTime(tools, FILE_POLL_MS));
    if (result.kind === "gone") return result;
  }
  return NEXT;
}

function passTime({ clock }: DriverTools, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}

function forever(): Promise<void> {
  return new Promise(() => undefined);
}
