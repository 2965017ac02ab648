/**
 * What is said when a child has been stopped, and about what could not be: proof kinds, and processes by pid and command.
 *
 * Invariant: a command line reaches nobody before it is stripped of control, bidirectional and invisible characters and cut.
 */

import type { StopReport } from "../core/command.ts";
import { sanitiseLine } from "../core/sanitise.ts";
import type { ProofKind, Survivor } from "../core/task.ts";
import type { ProcessRow, ProcessTable } from "./process-table.ts";

const COMMAND_CHARACTERS_MAX = 200;
/** More processes than these are not named. */
const NAMED_MAX = 50;
export function proven(proof: ProofKind, kept: readonly Survivor[] = []): StopReport {
  return { kind: "proven", stop: { proof, survivors: [], kept, by: null } };
}

export async function nameProcesses(rows: readonly ProcessRow[], table: ProcessTable): Promise<readonly Survivor[]> {
  const named = rows.slice(0, NAMED_MAX);
  return Promise.all(
    named.map(async ({ pid }) => ({ pid, command: sanitiseLine(await commandOf(pid, table), COMMAND_CHARACTERS_MAX) })),
  );
}

async function commandOf(pid: number, table: ProcessTable): Promise<string> {
  try {
    return await table.commandOf(pid);
  } catch {
    return "[?]";
  }
}
