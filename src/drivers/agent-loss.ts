/**
 * What it means that nothing more comes from an agent that is talked to over its pipes, and what of a fault is told to people.
 *
 * Invariant: killed by a signal is `lost`, so that its session goes on; an exit of its own is a fault with its complaint.
 */

import type { Child, ChildEnd } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { DriverEnd } from "../ports/driver.ts";

export type Loss =
  | { readonly kind: "ended"; readonly end: ChildEnd }
  /** It runs, but has closed its output. */
  | { readonly kind: "closed" }
  | { readonly kind: "line_too_long" };

/** After its output ended: how long the process may take to end. */
const EXIT_WAIT_MS = 1_000;
const COMPLAINT_CHARACTERS_MAX = 2_000;
/** How much of its error output is worth keeping. */
export const COMPLAINT_BYTES_MAX: number = 4 * COMPLAINT_CHARACTERS_MAX;

/** Why the output of a child has ended. */
export async function lossOf(child: Child, clock: Clock): Promise<Loss> {
  const ended = child.ended.then((end): Loss => ({ kind: "ended", end }));
  const late = new Promise<Loss>((resolve) => {
    clock.after(EXIT_WAIT_MS, () => resolve({ kind: "closed" }));
  });
  return Promise.race([ended, late]);
}

/** `stderr`: the end of what it wrote there. */
export function lossVerdict(loss: Loss, stderr: string): DriverEnd {
  const complaint = lastWordsOf(stderr);
  switch (loss.kind) {
    case "line_too_long":
      return { end: "fault", fault: { transport: true, text: "the agent wrote a line past the limit for lines" } };
    case "closed":
      return {
        end: "fault",
        fault: { transport: true, text: `the agent closed its output and runs on. ${complaint}`.trim() },
      };
    case "ended":
      return exitVerdict(loss.end, complaint);
  }
}

function exitVerdict(end: ChildEnd, complaint: string): DriverEnd {
  if (end.kind !== "exited") return { end: "lost" };
  const { code, signal } = end;
  // Killed by somebody else (the machine ran out of memory): its session is kept, and losses are counted.
  if (signal !== null) return { end: "lost" };
  return { end: "fault", fault: { exit: { code, signal }, ...(complaint === "" ? {} : { text: complaint }) } };
}

/** What whoever looks into a fault has to read: the agent's error, and the end of what it wrote to standard error. */
export function complaintOf(verdict: DriverEnd, stderr: string): string {
  if (verdict.end !== "fault") return "";
  const own = verdict.fault.text ?? "";
  const words = lastWordsOf(stderr);
  return (own.includes(words) ? own : `${own}\n${words}`).trim();
}

function lastWordsOf(stderr: string): string {
  return stderr.trim().slice(-COMPLAINT_CHARACTERS_MAX).toWellFormed();
}
