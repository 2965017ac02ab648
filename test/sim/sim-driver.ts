/**
 * A driver for simulated children, on the port that real drivers are on: it spawns through `Children`, reads lines, reports.
 *
 * It is not a well-behaved one: it is slow to start, may repeat itself, go on after an abort, throw, or end without a word.
 */

import { type Mark, parseId } from "../../src/core/ids.ts";
import type { OnLoss } from "../../src/core/task.ts";
import type { Child } from "../../src/ports/children.ts";
import type { AttemptOrder, Driver, DriverEvent, DriverTools } from "../../src/ports/driver.ts";
import type { Random } from "../support/sim-random.ts";
import type { Line } from "./child-script.ts";
import type { Life } from "./life.ts";
import type { Recorder } from "./recorder.ts";

type Report = (event: DriverEvent) => Promise<void>;
type Habits = {
  readonly prepareMs: number;
  readonly repeats: boolean;
  readonly throws: boolean;
  readonly wordless: boolean;
  readonly lingersMs: number;
  readonly coalesces: boolean;
};

export function createSimDriver(world: {
  readonly name: string;
  readonly onLoss: OnLoss;
  readonly life: Life;
  readonly random: Random;
  readonly recorder: Recorder;
  /** How often a driver misbehaves, 0 to 1. */
  readonly unruly: number;
  /** Lets the child with this mark go on: it has got its answer. */
  readonly handOver: (mark: Mark) => void;
}): Driver {
  const { name, onLoss, life, recorder } = world;
  return {
    name,
    onLoss,
    async run(order, report, tools) {
      const habits = habitsOf(world.random.fork(order.mark), world.unruly);
      await pause(tools, habits.prepareMs);
      if (tools.signal.aborted) return;
      const telling = recording(order, report, tools, life, recorder);
      const spawned = await tools.children.spawn({
        mark: order.mark,
        command: order.command,
        cwd: order.spec.cwd,
        env: {
          ...order.env,
          SIM_ACCESS: order.spec.access,
          ...(order.nativeSessionId === null ? {} : { SIM_SESSION: order.nativeSessionId }),
        },
        stdin: order.prompt,
      });
      if (spawned.kind === "failed") {
        const known = spawned.code === "EAGAIN" || spawned.code === "ENOENT";
        await telling(known ? fault({ spawnCode: spawned.code }) : LOST);
        return;
      }
      await telling({ kind: "bound", process: spawned.child.process, nativeSessionId: null });
      if (habits.throws) throw new Error("the driver broke");
      if (habits.wordless) return;
      await follow(spawned.child, telling, tools, habits, () => world.handOver(order.mark));
    },
  };
}

const LOST: DriverEvent = { kind: "end", end: "lost", text: null, sideEffects: true, usage: null };

function habitsOf(random: Random, unruly: number): Habits {
  return {
    prepareMs: random.chance(0.3) ? random.int(1, 400) : 0,
    repeats: random.chance(unruly / 3),
    throws: random.chance(unruly / 10),
    wordless: random.chance(unruly / 10),
    lingersMs: random.chance(unruly / 3) ? random.int(10, 3_000) : 0,
    coalesces: random.chance(0.5),
  };
}

async function follow(
  child: Child,
  report: Report,
  tools: DriverTools,
  habits: Habits,
  handOver: () => void,
): Promise<void> {
  const decoder = new TextDecoder();
  const aborted = new Promise<"aborted">((resolve) => {
    tools.signal.addEventListener("abort", () => resolve("aborted"), { once: true });
  });
  const lines = child.stdout[Symbol.asyncIterator]();
  for (;;) {
    const got = await Promise.race([lines.next(), aborted]);
    if (got === "aborted") {
      await pause(tools, habits.lingersMs);
      if (habits.lingersMs > 0) await report({ kind: "progress", steps: 1, toolRunning: false });
      return;
    }
    if (got.done) break;
    const line = readLine(decoder.decode(got.value));
    if (line.say === "ask") {
      askFor(line, tools, handOver);
      continue;
    }
    const event = eventOf(line);
    await report(event);
    if (habits.repeats) await report(event);
  }
  const end = await child.ended;
  await report(end.kind === "exited" ? fault({ exit: { code: end.code, signal: end.signal } }) : LOST);
}

/** The child waits by itself; whatever it says meanwhile is read on. */
function askFor({ optionIds }: Extract<Line, { say: "ask" }>, tools: DriverTools, handOver: () => void): void {
  const labels = { allow: "Allow", reject: "Reject" };
  tools
    .ask({ ask: "permission", optionIds, labels, action: { tool: "shell" }, prompt: "May I?" })
    .then((answer) => (answer === null ? undefined : handOver()))
    .catch(() => undefined);
}

function eventOf(line: Exclude<Line, { say: "ask" }>): DriverEvent {
  switch (line.say) {
    case "bound":
      return { kind: "bound", process: null, nativeSessionId: line.session };
    case "progress":
      return { kind: "progress", steps: line.steps, toolRunning: line.tool };
    case "end":
      return { kind: "end", text: line.text, sideEffects: true, usage: null, ...line.end };
  }
}

function fault(seen: Extract<DriverEvent, { end: "fault" }>["fault"]): DriverEvent {
  return { kind: "end", end: "fault", fault: seen, text: null, sideEffects: true, usage: null };
}

/** Notes the ending that the engine is told of, if it is one that it has to take. */
function recording(order: AttemptOrder, report: Report, tools: DriverTools, life: Life, recorder: Recorder): Report {
  const [, taskText = "", attempt = ""] = order.mark.split(".");
  const parsed = parseId(taskText);
  let ended = false;
  return async (event) => {
    await life.pass();
    const counts = event.kind === "end" && !ended && !tools.signal.aborted && life.alive && !life.draining;
    if (counts && parsed.kind === "task") {
      ended = true;
      const epoch = Number(attempt.slice(1));
      recorder.add({ kind: "reported", taskId: parsed.taskId, epoch, end: event.end });
    }
    await report(event);
  };
}

/** The lines are our own. */
function readLine(text: string): Line {
  return JSON.parse(text);
}

async function pause(tools: DriverTools, delayMs: number): Promise<void> {
  if (delayMs > 0) await new Promise<void>((resolve) => void tools.clock.after(delayMs, resolve));
}
