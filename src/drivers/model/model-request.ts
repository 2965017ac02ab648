/**
 * What a provider is asked: address, headers and body of one request, in its dialect.
 *
 * Invariant: the key stands in a header alone, never in the address or the body.
 * Invariant: the conversation is ours: earlier messages and results as they are stored, then the run's message.
 */

import type { AttemptOrder } from "../../ports/driver.ts";
import type { ModelEndpoint } from "../../ports/settings.ts";

export type ModelRequest = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** Every current model of that API writes as much; a longer answer ends as `max_tokens`. */
const ANSWER_TOKENS_MAX = 32_000;
const ANTHROPIC_VERSION = "2023-06-01";

const SYSTEM = `You work on a task that another agent delegated to you. You have no tools and see no files: use what the task says, \
never claim to have run or read anything else, and say what you would need if something is missing. Your answer is the result as a whole.`;

type Turn = { readonly role: "user" | "assistant"; readonly content: string };

export function requestFor(endpoint: ModelEndpoint, model: string, order: AttemptOrder): ModelRequest {
  const turns = turnsOf(order);
  const base = endpoint.baseUrl.replace(/\/+$/, "");
  const common = {
    "content-type": "application/json",
    accept: "text/event-stream",
    "accept-encoding": "identity",
    "user-agent": "delegate-mcp",
  };
  const { apiKey } = endpoint;
  switch (endpoint.api) {
    case "anthropic":
      return {
        url: `${base}${base.endsWith("/v1") ? "" : "/v1"}/messages`,
        headers: {
          ...common,
          "anthropic-version": ANTHROPIC_VERSION,
          ...(apiKey === null ? {} : { "x-api-key": apiKey }),
        },
        body: JSON.stringify({ model, max_tokens: ANSWER_TOKENS_MAX, system: SYSTEM, messages: turns, stream: true }),
      };
    case "openai":
      return {
        url: `${base}/chat/completions`,
        headers: { ...common, ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }) },
        body: JSON.stringify({
          model,
          messages: [{ role: "system", content: SYSTEM }, ...turns],
          stream: true,
          stream_options: { include_usage: true },
        }),
      };
  }
}

/** A turn that has no result, or one without anything to see, is left without an answer: APIs refuse an empty one. */
function turnsOf({ history, prompt }: AttemptOrder): readonly Turn[] {
  const earlier = history.flatMap(({ message, result }): readonly Turn[] => [
    { role: "user", content: message },
    ...(result === null || result.trim() === "" ? [] : [{ role: "assistant", content: result } as const]),
  ]);
  return [...earlier, { role: "user", content: prompt }];
}
