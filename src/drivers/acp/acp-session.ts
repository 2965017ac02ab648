/**
 * From a started agent to a session that is ready for its prompt.
 *
 * Invariant: a session that the order names is taken up or the attempt fails as `context_lost`; a new one in its place is
 * made only for an agent that can take up none, or that is known to keep no unfinished first turn, and is told as new.
 * Invariant: a session is handed on only when it is configured, so that a session which is known has been prompted or is
 * about to be: going on in it makes sense.
 */

import { type McpServer, methods } from "@agentclientprotocol/sdk";
import type { AttemptOrder } from "../../ports/driver.ts";
import { configFault, configure, type Failed, setUp } from "./acp-configure.ts";
import type { AcpConnection } from "./acp-connection.ts";
import { errorEvidence, isUnknownSession, RPC, type RpcError } from "../rpc-evidence.ts";
import { type Fields, fieldsIn, isFields, textIn } from "../fields.ts";
import { forgetsUnfinishedTurns } from "./acp-quirks.ts";

export type OpenedSession = {
  readonly kind: "opened";
  readonly sessionId: string;
  /** The agent took it up: it knows what was said before. */
  readonly resumed: boolean;
  /** The order names a session, but the agent kept nothing of it and is in a new one. */
  readonly startedAnew: boolean;
  readonly canClose: boolean;
  readonly agentName: string | null;
  readonly notes: readonly string[];
};

const PROTOCOL_VERSION = 1;
const UNSUPPORTED_VERSION = -32_022;

export async function openSession(connection: AcpConnection, order: AttemptOrder): Promise<OpenedSession | Failed> {
  const agent = await initialize(connection);
  if (agent.kind !== "agent") return agent;
  const servers = serversFor(order, agent.capabilities);
  const session = await enterSession(connection, order, agent, servers.list);
  if (session.kind !== "entered") return session;
  const { sessionId, resumed, startedAnew } = session;
  const configured = await configure(connection, sessionId, session.answer, order.spec);
  if (configured.kind !== "configured") return configured;
  return {
    kind: "opened",
    sessionId,
    resumed,
    startedAnew,
    canClose: isFields(fieldsIn(agent.capabilities["sessionCapabilities"])["close"]),
    agentName: agent.name,
    notes: [...servers.notes, ...session.notes, ...configured.notes],
  };
}

type Agent = { readonly kind: "agent"; readonly name: string | null; readonly capabilities: Fields };

async function initialize(connection: AcpConnection): Promise<Agent | Failed> {
  const answer = await setUp(connection, methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
  });
  if (answer.kind === "error") {
    const { code } = answer.error;
    if (code !== RPC.noMethod && code !== UNSUPPORTED_VERSION) return failedAt("initialize", answer.error);
    return configFault(`the agent does not speak ACP version 1: ${answer.error.message}`, "protocol_mismatch");
  }
  if (answer.kind !== "result") return answer;
  const { protocolVersion, agentCapabilities, agentInfo } = answer.result;
  if (protocolVersion !== PROTOCOL_VERSION) {
    const version = typeof protocolVersion === "number" ? `version ${protocolVersion}` : "no version that it names";
    return configFault(`the agent speaks ACP ${version}, this driver version 1`, "protocol_mismatch");
  }
  return { kind: "agent", name: textIn(fieldsIn(agentInfo)["name"]), capabilities: fieldsIn(agentCapabilities) };
}

type Servers = { readonly list: McpServer[]; readonly notes: readonly string[] };

/** How the child can delegate in its turn. The token goes to the agent alone. */
function serversFor({ delegation }: AttemptOrder, capabilities: Fields): Servers {
  if (delegation === null) return { list: [], notes: [] };
  if (fieldsIn(capabilities["mcpCapabilities"])["http"] !== true)
    return { list: [], notes: ["The agent takes no MCP server over HTTP; it cannot delegate by one."] };
  const headers = [{ name: "Authorization", value: `Bearer ${delegation.token}` }];
  return { list: [{ type: "http", name: "delegate", url: delegation.url, headers }], notes: [] };
}

type Entered = {
  readonly kind: "entered";
  readonly sessionId: string;
  readonly resumed: boolean;
  readonly startedAnew: boolean;
  readonly answer: Fields;
  readonly notes: readonly string[];
};

async function enterSession(
  connection: AcpConnection,
  order: AttemptOrder,
  agent: Agent,
  mcpServers: McpServer[],
): Promise<Entered | Failed> {
  const { nativeSessionId } = order;
  const { cwd } = order.spec;
  const method = nativeSessionId === null ? null : wayBack(agent.capabilities);
  if (nativeSessionId === null || method === null) return newSession(connection, order, mcpServers);
  const answer = await setUp(connection, method, { sessionId: nativeSessionId, cwd, mcpServers });
  if (answer.kind === "result") {
    return {
      kind: "entered",
      sessionId: nativeSessionId,
      resumed: true,
      startedAnew: false,
      answer: answer.result,
      notes: [],
    };
  }
  if (answer.kind !== "error") return answer;
  if (!isUnknownSession(answer.error)) return failedAt(method, answer.error);
  // Nothing but the unfinished turn was in it, and its prompt is at hand.
  if (order.history.length === 0 && forgetsUnfinishedTurns(agent.name))
    return newSession(connection, order, mcpServers);
  return { kind: "fault", fault: { contextLost: true, text: `${method}: ${answer.error.message}` } };
}

async function newSession(
  connection: AcpConnection,
  { spec, nativeSessionId }: AttemptOrder,
  mcpServers: McpServer[],
): Promise<Entered | Failed> {
  const answer = await setUp(connection, methods.agent.session.new, { cwd: spec.cwd, mcpServers });
  if (answer.kind === "error") return failedAt("session/new", answer.error);
  if (answer.kind !== "result") return answer;
  const sessionId = textIn(answer.result["sessionId"]);
  if (sessionId === null) return { kind: "fault", fault: { text: "the agent made a session without an id" } };
  const startedAnew = nativeSessionId !== null;
  const notes = startedAnew ? ["The agent could not take up its session; it goes on in a new one."] : [];
  return { kind: "entered", sessionId, resumed: false, startedAnew, answer: answer.result, notes };
}

/** Resuming is preferred: it replays nothing. */
function wayBack(capabilities: Fields): typeof methods.agent.session.resume | typeof methods.agent.session.load | null {
  if (isFields(fieldsIn(capabilities["sessionCapabilities"])["resume"])) return methods.agent.session.resume;
  return capabilities["loadSession"] === true ? methods.agent.session.load : null;
}

function failedAt(method: string, error: RpcError): Failed {
  const evidence = errorEvidence(error);
  return { kind: "fault", fault: { ...evidence, text: `${method}: ${evidence.text ?? error.code}` } };
}
