/**
 * The answer to `list_agents`. Nothing in it was written by a child.
 */

import { LIMITS } from "../core/limits.ts";
import type { AgentLine } from "../ports/engine.ts";
import { type AnswerJson, compact } from "./json-fields.ts";
import { nextJson } from "./next-json.ts";
import { type Of, pendingFields, pendingLines, type Rendered, type ReplyContext, sizeOf } from "./reply-parts.ts";
import { sayOf } from "./wording.ts";

/** As many agents as fit; how many there are is said. */
export function renderAgents(answer: Of<"agents">, context: ReplyContext): Rendered {
  const { agents } = answer;
  let shown = agents.length;
  for (;;) {
    const rendered = withAgents(answer, agents.slice(0, shown), context);
    if (shown === 0 || sizeOf(rendered) <= LIMITS.answerCharactersMax) return rendered;
    shown = Math.min(shown - 1, Math.floor((shown * LIMITS.answerCharactersMax) / sizeOf(rendered)));
  }
}

function withAgents(answer: Of<"agents">, shown: readonly AgentLine[], context: ReplyContext): Rendered {
  const { agents, limits } = answer;
  const left = shown.length === agents.length ? "" : ` The first ${shown.length} of them are listed here.`;
  const say = `${sayOf(answer, context.starts)}${left}`;
  const next = nextJson(answer.next, [], context);
  const json = {
    say,
    next,
    agents: shown.map(agentJson),
    limits,
    ...pendingFields(answer.pending),
    meta: context.contractVersion === undefined ? null : { contractVersion: context.contractVersion },
  };
  const lines = [
    say,
    ...shown.map(agentLine),
    `Limits: ${limits.running} of ${limits.concurrentChildren} children at work, ${limits.queued} queued of at most ${limits.queueMax}; children may delegate ${limits.depthMax <= 1 ? "nothing" : `${limits.depthMax - 1} levels further`}; permissions up to ${limits.permissionsMax}; approvals by ${limits.approvalsBy}.`,
    agents.length === 0 ? "NEXT: ask your user." : "NEXT: delegate_task, with or without one of these agents.",
    ...pendingLines(answer.pending),
  ];
  return { json: compact(json), text: lines.join("\n") };
}

function agentJson({ healing, ...agent }: AgentLine): AnswerJson {
  return { ...agent, healing: healing === 0 ? null : healing };
}

function agentLine({ name, driver, isDefault, model, permissions, health, healing }: AgentLine): string {
  const notes = [
    ...(isDefault ? ["default"] : []),
    health,
    ...(model === null ? [] : [`model ${model}`]),
    permissions.length === 0 ? "no permission level (not trusted)" : `permissions ${permissions.join(", ")}`,
    ...(healing === 0 ? [] : [`${healing} healing a provider's trouble`]),
  ];
  return `${name} (${driver}): ${notes.join("; ")}`;
}
