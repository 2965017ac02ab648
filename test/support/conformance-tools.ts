/**
 * The tools that the official conformance suite looks for, as far as a `Tool` can be one of them: one text, progress,
 * errors, any schema. With this table in place of the product's, the suite's tool scenarios run over the product's wire.
 *
 * Absent on purpose: the suite's tools that answer with images, audio or resources, log, or ask the client for something.
 * The wire has no way to do that; `test/conformance/expected` says so, scenario by scenario.
 */

import type { JsonSchema, Tool, ToolAnswer, ToolContext } from "../../src/mcp/tool.ts";

const NO_ARGUMENTS: JsonSchema = { type: "object", properties: {} };

/** The suite compares this schema, keyword by keyword, with what the list shows. */
const SCHEMA_2020_12: JsonSchema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of the schema language, never awaited.
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

/** The call that the fixture's proxy breaks off once; the suite then comes back for its answer. */
export const RECONNECTION_TOOL = "test_reconnection";

export const CONFORMANCE_TOOLS: readonly Tool[] = [
  answering("test_simple_text", "Answers with a text.", () => answerOf("This is a simple text response for testing.")),
  answering("test_error_handling", "Always fails.", () => ({
    ...answerOf("This tool intentionally returns an error for testing"),
    isError: true,
  })),
  answering("test_logging_tool", "Has nothing to log.", () => answerOf("Nothing was logged.")),
  {
    ...answering("json_schema_2020_12_tool", "Takes what JSON Schema 2020-12 can say.", () => answerOf("Taken.")),
    inputSchema: SCHEMA_2020_12,
  },
  holding("test_tool_with_progress", "Reports progress three times.", async ({ progress }) => {
    for (const message of ["0 of 100", "50 of 100", "100 of 100"]) progress?.(message);
    return answerOf("Done.");
  }),
  holding("test_streaming_elicitation", "Answers on a stream and asks the client nothing.", async ({ progress }) => {
    progress?.("working");
    return answerOf("Nothing had to be asked.");
  }),
  holding(RECONNECTION_TOOL, "Answers the client that comes back, not the stream that was broken.", async (context) => {
    if (!context.resumed) await aborted(context.signal);
    return answerOf(context.resumed ? "Reconnection test completed." : "Nobody reads this.");
  }),
];

function answering(name: string, description: string, answer: () => ToolAnswer): Tool {
  return {
    name,
    title: name,
    description,
    inputSchema: NO_ARGUMENTS,
    annotations: { readOnlyHint: true },
    mayHold: () => false,
    call: async () => answer(),
  };
}

function holding(name: string, description: string, call: (context: ToolContext) => Promise<ToolAnswer>): Tool {
  return {
    ...answering(name, description, () => answerOf("")),
    mayHold: () => true,
    call: (_args, context) => call(context),
  };
}

function answerOf(text: string): ToolAnswer {
  return { content: [{ type: "text", text }], structuredContent: { text } };
}

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve(), { once: true });
  if (signal.aborted) resolve();
  return promise;
}
