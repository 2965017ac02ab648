/**
 * From a started Pi to a session that is ready for its prompt.
 *
 * Invariant: the session's id is ours to choose, so it is known whatever becomes of the process. Pi writes a session down with
 * its first message, and silently begins anew under the same id if there is none; so what it holds is asked, not assumed.
 * Invariant: a session that should hold earlier turns and holds nothing is `context_lost`, never a new beginning.
 * Invariant: model and thinking are what was asked for, or a fault names them.
 */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FaultEvidence } from "../../core/failure.ts";
import type { Mark } from "../../core/ids.ts";
import type { AttemptOrder } from "../../ports/driver.ts";
import { promptOf } from "../child-prompt.ts";
import { type Fields, fieldsIn, listIn, textIn } from "../fields.ts";
import type { PiAnswer, PiConnection } from "./pi-connection.ts";
import { writtenEvidence } from "./pi-evidence.ts";

export type PiSession =
  | { readonly kind: "opened"; readonly sessionId: string; readonly prompt: string; readonly notes: readonly string[] }
  | { readonly kind: "fault"; readonly fault: FaultEvidence }
  | { readonly kind: "lost" };

const SETUP_MS_MAX = 120_000;
const THINKING = "thinking";

export type PiCommand =
  | { readonly kind: "command"; readonly command: readonly [string, ...string[]] }
  | { readonly kind: "fault"; readonly fault: FaultEvidence };

/** Registers our server in the child's Pi; address and token are in its environment. Older versions of Pi do without. */
const EXTENSION = `export default function (pi) {
  pi.registerMcpServer?.("delegate", {
    url: process.env.DELEGATE_CHILD_URL,
    headers: { Authorization: "Bearer \${DELEGATE_CHILD_TOKEN}" },
    exposure: "direct",
  });
}
`;

/** Program and arguments, or the fault of an option that Pi does not have, or of a folder that cannot be written to. */
export async function commandFor(order: AttemptOrder): Promise<PiCommand> {
  const [program, ...args] = order.command;
  const { model, options } = order.spec;
  const unknown = Object.keys(options).find((key) => key !== THINKING);
  if (unknown !== undefined)
    return faulty({ providerKind: "option_not_found", text: `Pi has no option ${unknown}; it has ${THINKING}` });
  const extension = await writeExtension(order);
  if (extension.kind === "fault") return extension;
  const thinking = options[THINKING];
  const command = [
    program,
    ...args,
    "--mode",
    "rpc",
    "--session-id",
    order.nativeSessionId ?? sessionIdFor(order.mark),
    ...(model === null ? [] : ["--model", model]),
    ...(thinking === undefined ? [] : ["--thinking", thinking]),
    ...extension.args,
  ] as const;
  return { kind: "command", command };
}

type Extension = { readonly kind: "args"; readonly args: readonly string[] };

async function writeExtension({
  delegation,
  scratchDir,
}: AttemptOrder): Promise<Extension | (PiCommand & { kind: "fault" })> {
  if (delegation === null) return { kind: "args", args: [] };
  const path = join(scratchDir, "delegate.ts");
  try {
    await writeFile(path, EXTENSION, { mode: 0o600 });
    return { kind: "args", args: ["--extension", path] };
  } catch (error) {
    const spawnCode = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
    return faulty({ spawnCode, text: error instanceof Error ? error.message : spawnCode });
  }
}

function faulty(fault: FaultEvidence): PiCommand & { kind: "fault" } {
  return { kind: "fault", fault };
}

/** Letters, digits and `.`, `_`, `-` within, as Pi wants it. */
function sessionIdFor(mark: Mark): string {
  return `d${mark.replaceAll(/[^A-Za-z0-9._-]/g, "-")}`;
}

export async function openPiSession(connection: PiConnection, order: AttemptOrder): Promise<PiSession> {
  const state = await connection.call({ type: "get_state" }, SETUP_MS_MAX);
  if (state.kind !== "done") return failed("get_state", state);
  const sessionId = textIn(state.data["sessionId"]);
  if (sessionId === null) return { kind: "fault", fault: { text: "Pi has a session without an id" } };
  const wrong = wrongThinking(order, state.data);
  if (wrong !== null) return { kind: "fault", fault: wrong };
  const { nativeSessionId, history } = order;
  if (nativeSessionId === null) return opened(sessionId, order, { resumed: false, startedAnew: false });
  const told = await connection.call({ type: "get_fork_messages" }, SETUP_MS_MAX);
  if (told.kind !== "done" && told.kind !== "cut") return failed("get_fork_messages", told);
  const texts =
    told.kind === "cut" ? null : listIn(told.data["messages"]).map((each) => textIn(fieldsIn(each)["text"]));
  if (sessionId !== nativeSessionId || texts?.length === 0) {
    if (history.length > 0)
      return { kind: "fault", fault: { contextLost: true, text: "Pi kept nothing of the session" } };
    return opened(sessionId, order, { resumed: false, startedAnew: true });
  }
  // A message that never reached the session has to be said; one that did must not be said again (P6).
  const reached = texts === null || texts.includes(literal(order.prompt));
  const due: AttemptOrder = reached ? order : { ...order, cause: "first" };
  return opened(sessionId, due, { resumed: true, startedAnew: false });
}

function opened(
  sessionId: string,
  order: AttemptOrder,
  context: { readonly resumed: boolean; readonly startedAnew: boolean },
): PiSession {
  const prompt = literal(promptOf(order, context));
  const notes = context.startedAnew ? ["Pi kept nothing of its session; it goes on in a new one."] : [];
  return { kind: "opened", sessionId, prompt, notes };
}

/** What begins with a slash would be a command of Pi or of an extension. */
function literal(prompt: string): string {
  return prompt.startsWith("/") ? `\n${prompt}` : prompt;
}

/** Pi lowers a level that its model does not have. */
function wrongThinking({ spec }: AttemptOrder, state: Fields): FaultEvidence | null {
  const asked = spec.options[THINKING];
  const has = textIn(state["thinkingLevel"]) ?? "none";
  if (asked === undefined || asked === has) return null;
  return { providerKind: "option_not_found", text: `${THINKING} ${asked} cannot be had; Pi offers ${has}` };
}

function failed(what: string, answer: Exclude<PiAnswer, { readonly kind: "done" }>): PiSession {
  if (answer.kind === "lost") return { kind: "lost" };
  if (answer.kind === "refused") return { kind: "fault", fault: writtenEvidence(`${what}: ${answer.error}`) };
  const text = `Pi did not answer ${what} ${answer.kind === "late" ? `within ${SETUP_MS_MAX / 1_000} s` : "in a form that can be read"}`;
  return { kind: "fault", fault: { text } };
}
