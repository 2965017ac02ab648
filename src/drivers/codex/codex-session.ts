/**
 * From a started app server to a thread that is ready for its turn.
 *
 * Invariant: the thread is kept on disk before it is handed on. Codex writes a new thread down only with its first turn, or with
 * its name; one that is told and then lost could not be taken up again (P6).
 * Invariant: a thread that the order names is taken up or the attempt fails as `context_lost`; whether its record holds the run's
 * prompt decides what the child is told, not the cause alone.
 * Invariant: the thread may do no more than the task's level, whatever the user's own settings say (P18).
 * Invariant: nothing is written to the user's settings, and no secret is in an argument: what is set is set for this thread,
 * and the token is named by its variable.
 */

import type { FaultEvidence } from "../../core/failure.ts";
import { headOf } from "../../core/excerpt.ts";
import type { AttemptOrder } from "../../ports/driver.ts";
import { type Fields, fieldsIn, listIn, textIn } from "../fields.ts";
import { GO_ON } from "../child-prompt.ts";
import type { CodexConnection } from "./codex-connection.ts";
import { callEvidence } from "./codex-evidence.ts";
import { exceeds, threadLimits } from "./codex-permission.ts";

export type OpenedThread = {
  readonly kind: "opened";
  readonly threadId: string;
  /** It had turns before. */
  readonly resumed: boolean;
  /** Its record holds the run's prompt. */
  readonly told: boolean;
};
export type Failed = { readonly kind: "fault"; readonly fault: FaultEvidence } | { readonly kind: "lost" };

/** How long Codex may take for anything but a turn. */
export const CALL_MS_MAX = 30_000;
/** Our server in the child, and what a user's own way to the same daemon is called. */
const SERVER_NAME = "delegate_child";
const USERS_SERVER_NAME = "delegate";
const TOKEN_VARIABLE = "DELEGATE_CHILD_TOKEN";
const PLAIN_NAME = /^[A-Za-z0-9_-]+$/;
const TITLE_CHARACTERS_MAX = 200;

type Called = { readonly kind: "result"; readonly result: Fields } | Failed;

/** A call that is no turn: its answer, or what its failure means. */
export async function callCodex(connection: CodexConnection, method: string, params: Fields): Promise<Called> {
  const answer = await connection.call(method, params, CALL_MS_MAX);
  if (answer.kind === "error") return { kind: "fault", fault: callEvidence(method, answer.error) };
  if (answer.kind !== "late") return answer;
  const text = `Codex did not answer ${method} within ${CALL_MS_MAX / 1_000} s`;
  return { kind: "fault", fault: { transport: true, text } };
}

export async function openThread(connection: CodexConnection, order: AttemptOrder): Promise<OpenedThread | Failed> {
  const unfit = unknownOption(order);
  if (unfit !== null) return configFault(unfit);
  const hello = await initialize(connection);
  if (hello !== null) return hello;
  const servers = await serversFor(connection, order);
  if (servers.kind !== "servers") return servers;
  const { spec, nativeSessionId } = order;
  const common = {
    cwd: spec.cwd,
    ...(spec.model === null ? {} : { model: spec.model }),
    ...threadLimits(spec.permissions),
    config: servers.config,
  };
  const thread =
    nativeSessionId === null
      ? await callCodex(connection, "thread/start", common)
      : await callCodex(connection, "thread/resume", { ...common, threadId: nativeSessionId, excludeTurns: true });
  if (thread.kind !== "result") return thread;
  if (exceeds(spec.permissions, thread.result))
    return configFault(`Codex would run the thread with more than permissions "${spec.permissions}" allow`);
  const threadId = nativeSessionId ?? textIn(fieldsIn(thread.result["thread"])["id"]);
  if (threadId === null) return { kind: "fault", fault: { text: "Codex made a thread without an id" } };
  return nativeSessionId === null ? keep(connection, threadId, order) : record(connection, threadId, order);
}

async function initialize(connection: CodexConnection): Promise<Failed | null> {
  const answer = await connection.call(
    "initialize",
    { clientInfo: { name: "delegate-mcp", title: null, version: "1" }, capabilities: null },
    CALL_MS_MAX,
  );
  if (answer.kind === "result" && textIn(answer.result["userAgent"]) !== null) {
    await connection.notify("initialized");
    return null;
  }
  if (answer.kind === "lost") return answer;
  if (answer.kind === "late")
    return { kind: "fault", fault: { transport: true, text: "Codex did not answer initialize within 30 s" } };
  const said = answer.kind === "error" ? `: ${answer.error.message}` : "";
  return configFault(`the program is no Codex app server that this driver knows${said}`, "protocol_mismatch");
}

/** Options of Codex's own that a task may name. */
const OPTIONS = new Set(["effort"]);

function unknownOption({ spec }: AttemptOrder): string | null {
  const name = Object.keys(spec.options).find((option) => !OPTIONS.has(option));
  return name === undefined ? null : `Codex has no option "${name}" here; it has ${[...OPTIONS].join(", ")}`;
}

type Servers = { readonly kind: "servers"; readonly config: Fields };

/** How the child can delegate in its turn, and only so: by the user's own server it would be a caller of its own. */
async function serversFor(connection: CodexConnection, order: AttemptOrder): Promise<Servers | Failed> {
  const { delegation, spec } = order;
  const answer = await callCodex(connection, "config/read", { cwd: spec.cwd });
  if (answer.kind !== "result") return answer;
  const users = Object.entries(fieldsIn(fieldsIn(answer.result["config"])["mcp_servers"]))
    .filter(([name, server]) => isOurs(name, fieldsIn(server), delegation?.url ?? null))
    .map(([name]) => [`mcp_servers.${name}.enabled`, false] as const);
  const ours =
    delegation === null
      ? {}
      : {
          [`mcp_servers.${SERVER_NAME}`]: {
            url: delegation.url,
            bearer_token_env_var: TOKEN_VARIABLE,
            // What a child may delegate is decided by the daemon.
            default_tools_approval_mode: "approve",
          },
        };
  return { kind: "servers", config: { ...Object.fromEntries(users), ...ours } };
}

function isOurs(name: string, { url }: Fields, daemonUrl: string | null): boolean {
  return PLAIN_NAME.test(name) && (name === USERS_SERVER_NAME || (daemonUrl !== null && url === daemonUrl));
}

/** A name makes Codex write the thread down, and tells a person in Codex's own list what it is. */
async function keep(
  connection: CodexConnection,
  threadId: string,
  { spec }: AttemptOrder,
): Promise<OpenedThread | Failed> {
  const name = headOf(spec.title.trim() === "" ? "delegated task" : spec.title.trim(), TITLE_CHARACTERS_MAX);
  const named = await callCodex(connection, "thread/name/set", { threadId, name });
  return named.kind === "result" ? { kind: "opened", threadId, resumed: false, told: false } : named;
}

/** What the thread's newest turn was begun with. */
async function record(
  connection: CodexConnection,
  threadId: string,
  { prompt }: AttemptOrder,
): Promise<OpenedThread | Failed> {
  const answer = await connection.call("thread/turns/list", { threadId, limit: 1, sortDirection: "desc" }, CALL_MS_MAX);
  if (answer.kind === "lost") return answer;
  // A version that cannot list turns: its thread is there, so it was told.
  if (answer.kind !== "result") return { kind: "opened", threadId, resumed: true, told: true };
  const [newest] = listIn(answer.result["data"]).map(fieldsIn);
  if (newest === undefined) return { kind: "opened", threadId, resumed: false, told: false };
  const said = listIn(newest["items"])
    .map(fieldsIn)
    .filter(({ type }) => type === "userMessage")
    .map((item) =>
      listIn(item["content"])
        .map((part) => textIn(fieldsIn(part)["text"]) ?? "")
        .join(""),
    );
  const told = said.length === 0 || said.some((text) => text === prompt || text.startsWith(GO_ON));
  return { kind: "opened", threadId, resumed: true, told };
}

function configFault(text: string, providerKind = "option_not_found"): Failed {
  return { kind: "fault", fault: { providerKind, text } };
}
