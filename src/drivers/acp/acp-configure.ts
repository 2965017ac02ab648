/**
 * Sets a session's model, options and mode to what the task asks for.
 *
 * Invariant: what cannot be had is a fault that names it, never a silent other value; a mode never allows more than the
 * task's level, whoever asks for it (P18).
 */

import { type AgentRequestMethod, type AgentRequestParamsByMethod, methods } from "@agentclientprotocol/sdk";
import type { FaultEvidence } from "../../core/failure.ts";
import type { Spec } from "../../core/task.ts";
import type { AcpConnection, Answer } from "./acp-connection.ts";
import { errorEvidence, RPC } from "../rpc-evidence.ts";
import { type Fields, fieldsIn, isFields, listIn, textIn } from "../fields.ts";
import { exceeds, modeFor } from "./acp-modes.ts";

export type Failed = { readonly kind: "fault"; readonly fault: FaultEvidence } | { readonly kind: "lost" };
export type Configured = { readonly kind: "configured"; readonly notes: readonly string[] };

/** How long an agent may take for anything but a turn. Some fetch their own program first. */
const SETUP_MS_MAX = 120_000;

/** A call that is no turn: its answer, or what its failure means. */
export async function setUp<Method extends AgentRequestMethod>(
  connection: AcpConnection,
  method: Method,
  params: AgentRequestParamsByMethod[Method],
): Promise<Exclude<Answer, { readonly kind: "late" | "lost" }> | Failed> {
  const answer = await connection.call(method, params, SETUP_MS_MAX);
  if (answer.kind !== "late") return answer;
  return { kind: "fault", fault: { text: `the agent did not answer ${method} within ${SETUP_MS_MAX / 1_000} s` } };
}

export function configFault(text: string, providerKind = "option_not_found"): Failed {
  return { kind: "fault", fault: { providerKind, text } };
}

/** `session`: the answer that opened it. */
export async function configure(
  connection: AcpConnection,
  sessionId: string,
  session: Fields,
  spec: Spec,
): Promise<Configured | Failed> {
  const settings = createSettings(connection, sessionId, session);
  const model = await chooseModel(settings, spec.model);
  if (model !== null) return model;
  for (const [id, value] of Object.entries(spec.options)) {
    const refused = await chooseOption(settings, id, value, spec);
    if (refused !== null) return refused;
  }
  return chooseMode(settings, spec);
}

type Settings = {
  readonly options: () => readonly Fields[];
  readonly modes: Fields;
  /** Null if it was set, or had the value. */
  set(option: Fields, value: string, what: string, kind?: string): Promise<Failed | null>;
  setMode(modeId: string): Promise<Failed | null>;
};

function createSettings(connection: AcpConnection, sessionId: string, session: Fields): Settings {
  let options = listIn(session["configOptions"]).filter(isFields);
  return {
    options: () => options,
    modes: fieldsIn(session["modes"]),
    async set(option, value, what, kind) {
      if (option["currentValue"] === value) return null;
      const configId = textIn(option["id"]) ?? "";
      const isSwitch = option["type"] === "boolean";
      if (isSwitch && value !== "true" && value !== "false") return configFault(`${what} is "true" or "false"`);
      const params = isSwitch
        ? ({ sessionId, configId, type: "boolean", value: value === "true" } as const)
        : { sessionId, configId, value };
      const answer = await setUp(connection, methods.agent.session.setConfigOption, params);
      if (answer.kind !== "result") return refusal(answer, what, kind);
      const now = listIn(answer.result["configOptions"]).filter(isFields);
      if (now.length > 0) options = now;
      return null;
    },
    async setMode(modeId) {
      const answer = await setUp(connection, methods.agent.session.setMode, { sessionId, modeId });
      return answer.kind === "result" ? null : refusal(answer, `mode "${modeId}"`);
    },
  };
}

function refusal(
  answer: Exclude<Answer, { readonly kind: "result" | "late" }> | Failed,
  what: string,
  kind?: string,
): Failed {
  if (answer.kind !== "error") return answer;
  const { error } = answer;
  const text = `the agent refuses ${what}: ${error.message}`;
  if (error.code === RPC.badParams) return configFault(text, kind);
  return { kind: "fault", fault: { ...errorEvidence(error), text } };
}

async function chooseModel(settings: Settings, model: string | null): Promise<Failed | null> {
  if (model === null) return null;
  const option =
    settings.options().find(({ category }) => category === "model") ??
    settings.options().find(({ id }) => id === "model");
  if (option !== undefined) return settings.set(option, model, `model "${model}"`, "model_not_found");
  return configFault(`the agent offers no choice of model, "${model}" was asked for`, "model_not_found");
}

async function chooseOption(settings: Settings, id: string, value: string, spec: Spec): Promise<Failed | null> {
  const options = settings.options();
  const option = options.find((candidate) => candidate["id"] === id);
  if (option === undefined) {
    const known = options.map((candidate) => textIn(candidate["id"]) ?? "").join(", ");
    return configFault(`the agent has no option "${id}"; it has ${known === "" ? "none" : known}`);
  }
  if (option["category"] === "mode" && exceeds(spec.permissions, value))
    return configFault(`option "${id}": "${value}" may allow more than permissions "${spec.permissions}"`);
  return settings.set(option, value, `option "${id}" = "${value}"`);
}

/** By the level, unless an option named a mode. */
async function chooseMode(settings: Settings, { permissions, options }: Spec): Promise<Configured | Failed> {
  const option = settings.options().find(({ category, type }) => category === "mode" && type !== "boolean");
  if (option !== undefined && Object.hasOwn(options, textIn(option["id"]) ?? ""))
    return { kind: "configured", notes: [] };
  const available = option === undefined ? modesIn(settings.modes) : valuesOf(option["options"]);
  const mode = modeFor(permissions, available);
  if (mode === null) {
    const notes = available.length === 0 ? [] : [`No mode of the agent is known to fit permissions "${permissions}".`];
    return { kind: "configured", notes };
  }
  if (option === undefined && settings.modes["currentModeId"] === mode) return { kind: "configured", notes: [] };
  const refused = await (option === undefined ? settings.setMode(mode) : settings.set(option, mode, `mode "${mode}"`));
  if (refused === null) return { kind: "configured", notes: [] };
  // Where everything is allowed, an agent that does not want its widest mode asks, and is allowed.
  if (permissions === "full" && refused.kind === "fault")
    return { kind: "configured", notes: [`The agent did not take its mode "${mode}".`] };
  return refused;
}

function modesIn(modes: Fields): readonly string[] {
  return listIn(modes["availableModes"]).flatMap((mode) => textIn(fieldsIn(mode)["id"]) ?? []);
}

/** Values of an option, in groups or not. */
function valuesOf(options: unknown): readonly string[] {
  return listIn(options).flatMap((entry) => {
    const { value, options: group } = fieldsIn(entry);
    return Array.isArray(group) ? valuesOf(group) : (textIn(value) ?? []);
  });
}
