/**
 * Starts the process of an agent that is talked to over its pipes, and tells what came of it.
 *
 * Invariant: a process is reported, and so durable, before anything is said to it.
 */

import type { FaultEvidence } from "../core/failure.ts";
import type { Child } from "../ports/children.ts";
import type { AttemptOrder, DriverTools } from "../ports/driver.ts";
import type { Report } from "./reporter.ts";

export type AgentStart = {
  readonly command: AttemptOrder["command"];
  readonly env: AttemptOrder["env"];
  /** The session that it will be in, as far as that is known. */
  readonly nativeSessionId: string | null;
};

/** Null if there is no process, which was reported, or the attempt is over. */
export async function startAgent(
  order: AttemptOrder,
  { command, env, nativeSessionId }: AgentStart,
  report: Report,
  { children, signal }: DriverTools,
): Promise<Child | null> {
  const started = await children.spawn({ mark: order.mark, command, cwd: order.spec.cwd, env, stdin: null });
  if (signal.aborted) return null;
  if (started.kind === "failed") {
    await reportNotStarted(report, { spawnCode: started.code, text: started.message });
    return null;
  }
  await report({ kind: "bound", process: started.child.process, nativeSessionId });
  return started.child;
}

/** The end of a program that never ran. */
export function reportNotStarted(report: Report, fault: FaultEvidence): Promise<void> {
  return report({ kind: "end", end: "fault", fault, text: null, sideEffects: false, usage: null });
}
