/**
 * The script of the fake agent: a JSON object with `steps`, and how it is read.
 *
 *   {"steps": [{"do": "say", "text": "hello"}, {"do": "end"}], "stateFile": "/tmp/x/state.json"}
 *
 * It stands in the option `script`, or anywhere in the prompt from the first `{"steps"` to the last `}`. A prompt without one
 * is answered with itself. `stateFile` keeps what the agent remembers of a run over a restart of the daemon.
 *
 *   {"do": "say", "text": "…"}                  adds to the final text
 *   {"do": "sayAnswer"}                         adds the answer to the last question
 *   {"do": "progress", "steps": 3, "toolRunning": true}
 *   {"do": "message", "role": "tool", "text": "…"}   a piece of the conversation; `role` child (default), tool or note
 *   {"do": "sleep", "ms": 1000}                 by the daemon's clock, which a test may step
 *   {"do": "waitFile", "path": "…"}             until the file exists
 *   {"do": "waitFor", "name": "…"}              until `release(name)` of the driver was called
 *   {"do": "fault", "times": 2, "fault": {…}}   ends the first `times` attempts (1) that come here with this evidence
 *   {"do": "ask", "ask": "question", "prompt": "…", "optionIds": ["a"], "labels": {"a": "…"}, "action": {"tool": "…"}}
 *                                               asks, and goes on when the answer is there
 *   {"do": "write", "path": "…", "text": "…", "append": true}   relative to the working directory
 *   {"do": "end", "text": "…", "evidence": "assumed", "usage": {"inputTokens": 1, "outputTokens": 2, "costUsd": 0.1}}
 *                                               success; its text, else what was said; without any of both `empty`
 *   {"do": "end", "fault": {"stopReason": "max_turns"}}         ends with this evidence and what was said
 *   {"do": "lost"}                              nobody can tell how it ended
 *   {"do": "hang"}                              never goes on
 *   {"do": "throw"}                             breaks the driver's own contract
 *
 * Invariant: a script that is malformed is a fault with its reason, never a guess.
 */

import type { FaultEvidence } from "../../core/failure.ts";
import type { Usage } from "../../core/task.ts";

export type FakeScript = { readonly steps: readonly FakeStep[]; readonly stateFile: string | null };

export type FakeStep =
  | { readonly do: "say"; readonly text: string }
  | { readonly do: "sayAnswer" | "lost" | "hang" | "throw" }
  | { readonly do: "progress"; readonly steps: number; readonly toolRunning: boolean }
  | { readonly do: "message"; readonly role: "child" | "tool" | "note"; readonly text: string }
  | { readonly do: "sleep"; readonly ms: number }
  | { readonly do: "waitFile"; readonly path: string }
  | { readonly do: "waitFor"; readonly name: string }
  | { readonly do: "fault"; readonly times: number; readonly fault: FaultEvidence }
  | {
      readonly do: "ask";
      readonly ask: "permission" | "question";
      readonly prompt: string;
      readonly optionIds: readonly string[];
      readonly labels: Readonly<Record<string, string>>;
      readonly action: Readonly<Record<string, string>>;
    }
  | { readonly do: "write"; readonly path: string; readonly text: string; readonly append: boolean }
  | {
      readonly do: "end";
      readonly text: string | null;
      readonly evidence: "explicit" | "assumed";
      readonly fault: FaultEvidence | null;
      readonly usage: Usage | null;
    };

export type ParsedScript = { readonly script: FakeScript } | { readonly error: string };

type Fields = Readonly<Record<string, unknown>>;

/** The script in a text, or one that says the text. */
export function parseFakeScript(text: string): ParsedScript {
  const from = text.indexOf('{"steps"');
  if (from < 0) return { script: { steps: [{ do: "say", text }], stateFile: null } };
  try {
    const parsed = fieldsOf(JSON.parse(text.slice(from, text.lastIndexOf("}") + 1)));
    const steps = parsed["steps"];
    if (!Array.isArray(steps)) return { error: "steps is no array" };
    return {
      script: { steps: steps.map((step) => stepOf(fieldsOf(step))), stateFile: textOr(parsed["stateFile"], null) },
    };
  } catch (error) {
    return { error: error instanceof Error ? error.message : "no JSON" };
  }
}

function stepOf(fields: Fields): FakeStep {
  const { do: name } = fields;
  switch (name) {
    case "sayAnswer":
    case "lost":
    case "hang":
    case "throw":
      return { do: name };
    case "say":
      return { do: name, text: textOf(fields, "text") };
    case "message":
      return { do: name, role: roleOf(fields["role"]), text: textOf(fields, "text") };
    case "progress":
      return { do: name, steps: numberOr(fields["steps"], 1), toolRunning: fields["toolRunning"] === true };
    case "sleep":
      return { do: name, ms: numberOr(fields["ms"], 0) };
    case "waitFile":
      return { do: name, path: textOf(fields, "path") };
    case "waitFor":
      return { do: name, name: textOf(fields, "name") };
    case "fault":
      return { do: name, times: numberOr(fields["times"], 1), fault: evidenceOf(fieldsOf(fields["fault"])) };
    case "ask":
      return askOf(fields);
    case "write":
      return {
        do: name,
        path: textOf(fields, "path"),
        text: textOf(fields, "text"),
        append: fields["append"] === true,
      };
    case "end":
      return endOf(fields);
    default:
      throw new Error(`no such step: ${JSON.stringify(fields)}`);
  }
}

function roleOf(role: unknown): "child" | "tool" | "note" {
  return role === "tool" || role === "note" ? role : "child";
}

function askOf(fields: Fields): FakeStep {
  const optionIds = fields["optionIds"];
  return {
    do: "ask",
    ask: fields["ask"] === "permission" ? "permission" : "question",
    prompt: textOr(fields["prompt"], "?"),
    optionIds: Array.isArray(optionIds) ? optionIds.map(String) : [],
    labels: textsOf(fieldsOf(fields["labels"] ?? {})),
    action: textsOf(fieldsOf(fields["action"] ?? {})),
  };
}

function endOf(fields: Fields): FakeStep {
  const { fault, usage } = fields;
  return {
    do: "end",
    text: textOr(fields["text"], null),
    evidence: fields["evidence"] === "assumed" ? "assumed" : "explicit",
    fault: fault === undefined ? null : evidenceOf(fieldsOf(fault)),
    usage: usage === undefined ? null : usageOf(fieldsOf(usage)),
  };
}

function usageOf(fields: Fields): Usage {
  return {
    inputTokens: numberOr(fields["inputTokens"], null),
    outputTokens: numberOr(fields["outputTokens"], null),
    costUsd: numberOr(fields["costUsd"], null),
  };
}

function evidenceOf(fields: Fields): FaultEvidence {
  const exit = fields["exit"] === undefined ? null : fieldsOf(fields["exit"]);
  return {
    ...pick("httpStatus", numberOr(fields["httpStatus"], null)),
    ...pick("retryAfterMs", numberOr(fields["retryAfterMs"], null)),
    ...pick("text", textOr(fields["text"], null)),
    ...pick("providerKind", textOr(fields["providerKind"], null)),
    ...pick("stopReason", textOr(fields["stopReason"], null)),
    ...pick("spawnCode", textOr(fields["spawnCode"], null)),
    ...pick(
      "exit",
      exit === null ? null : { code: numberOr(exit["code"], null), signal: textOr(exit["signal"], null) },
    ),
    ...(fields["transport"] === true ? { transport: true } : {}),
    ...(fields["empty"] === true ? { empty: true } : {}),
    ...(fields["rerun"] === true ? { rerun: true } : {}),
    ...(fields["contextLost"] === true ? { contextLost: true } : {}),
  };
}

function pick<Name extends string, Value>(name: Name, value: Value | null): { readonly [key in Name]?: Value } {
  const picked: { [key in Name]?: Value } = {};
  if (value !== null) picked[name] = value;
  return picked;
}

function fieldsOf(value: unknown): Fields {
  if (typeof value !== "object" || value === null) throw new Error(`no object: ${JSON.stringify(value)}`);
  return Object.fromEntries(Object.entries(value));
}

function textsOf(fields: Fields): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)]));
}

function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== "string") throw new Error(`${name} is missing in ${JSON.stringify(fields)}`);
  return value;
}

function textOr<Other>(value: unknown, other: Other): string | Other {
  return typeof value === "string" ? value : other;
}

function numberOr<Other>(value: unknown, other: Other): number | Other {
  return typeof value === "number" ? value : other;
}
