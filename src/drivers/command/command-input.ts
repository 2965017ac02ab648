/**
 * What a program is given: its task and, when it is continued, its history.
 *
 * Invariant: task and history never stand in the command line or in a variable; other users could read the one, and both are
 * short. Files are the owner's alone.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AttemptOrder } from "../../ports/driver.ts";

export type CommandInput = { readonly stdin: string; readonly env: Readonly<Record<string, string>> };

const TASK_FILE_VARIABLE = "DELEGATE_CHILD_TASK_FILE";
const HISTORY_FILE_VARIABLE = "DELEGATE_CHILD_HISTORY_FILE";

/**
 * The history file holds `{"task": "<first message>", "turns": [{"message": "…", "result": "…" or null}, …]}`, oldest first,
 * the first message included; the message of this run is the task on standard input or in the task file. A file that cannot be
 * written is a failed start, with the system's code.
 */
export async function prepareInput(
  order: AttemptOrder,
): Promise<CommandInput | { readonly spawnCode: string; readonly text: string }> {
  try {
    const byFile = order.promptBy === "file";
    const task = byFile ? { [TASK_FILE_VARIABLE]: await writePrivate(order, "task.txt", order.prompt) } : {};
    return { stdin: byFile ? "" : order.prompt, env: { ...task, ...(await prepareHistory(order)) } };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
    return { spawnCode: code, text: error instanceof Error ? error.message : code };
  }
}

async function prepareHistory(order: AttemptOrder): Promise<Readonly<Record<string, string>>> {
  const [first] = order.history;
  if (first === undefined) return {};
  const history = JSON.stringify({ task: first.message, turns: order.history });
  return { [HISTORY_FILE_VARIABLE]: await writePrivate(order, "history.json", history) };
}

async function writePrivate({ scratchDir }: AttemptOrder, name: string, text: string): Promise<string> {
  const path = join(scratchDir, name);
  await writeFile(path, text, { mode: 0o600 });
  return path;
}
