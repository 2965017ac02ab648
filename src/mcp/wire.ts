/**
 * Arguments of tools: what is accepted, and what models send instead that means the same.
 *
 * Invariant: a caller's slip is named with what was expected; nothing is guessed but harmless forms (a string for a list
 * of one, a list or number as JSON text, null for absent).
 * Invariant: a field that a tool does not know is refused, with the one that was probably meant: a misspelt filter or list of
 * ids would else ask for something quite different.
 * Invariant: input schemas are flat: no `$ref`, no `oneOf`.
 */

import { z } from "zod";

import { parseId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { Json } from "../core/receipt.ts";
import { sanitiseLine } from "../core/sanitise.ts";
import { PERMISSIONS, ROLES } from "../core/task.ts";
import type { FieldProblem, Read } from "../ports/engine.ts";
import { likeliest } from "./likeliest.ts";
import type { JsonSchema } from "./tool.ts";

const id = (what: string) => z.string().min(1).max(200).describe(what);
const waitMs = z
  .number()
  .int()
  .min(0)
  .describe("How long to wait at most, in ms; default: as long as your client bears. 0 = do not wait.");
/** A leading dash could be read as an option by a program that gets the value as an argument. */
const plainWord = (what: string) =>
  z
    .string()
    .max(200)
    .regex(/^[\p{L}\p{N}][^\s\u0000-\u001f]*$/u, "a name that begins with a letter or digit and holds no spaces")
    .describe(what);
const key = z
  .string()
  .min(LIMITS.keyCharactersMin)
  .max(LIMITS.keyCharactersMax)
  .describe(
    "Your name for this piece of work, 8-256 characters, unlikely to be used by anyone else; reuse it only to repeat this very call.",
  );
const bounded = (bytesMax: number, what: string) =>
  z
    .string()
    .min(1)
    .refine((text) => Buffer.byteLength(text) <= bytesMax, `at most ${bytesMax} bytes of UTF-8`)
    .refine((text) => !text.includes("\u0000"), "text without NUL characters")
    .describe(what);

/** They are a part of the task from then on, which is written anew with every step of its child: so they are short. */
const options = z
  .record(z.string(), z.string())
  .refine(
    (given) =>
      JSON.stringify(given).length <= LIMITS.optionsCharactersMax && Object.keys(given).length <= LIMITS.optionsMax,
    `at most ${LIMITS.optionsMax} options of ${LIMITS.optionsCharactersMax} characters together`,
  );

export const DELEGATE = z.strictObject({
  clientRequestId: key,
  task: bounded(
    LIMITS.taskBytesMax,
    "All that the child will know: goal, paths, limits, and what to report at the end.",
  ),
  title: z.string().min(1).max(LIMITS.titleCharactersMax).optional().describe("A short name for people."),
  role: z
    .enum(ROLES)
    .optional()
    .describe("Default general. research, review and design read only unless access says otherwise."),
  agent: plainWord("Which agent; default: the operator's.").optional(),
  model: plainWord("Model of that agent.").optional(),
  options: options.optional().describe("Options that the agent advertises."),
  cwd: z.string().min(1).max(4096).optional().describe("Directory that the child works in."),
  access: z.enum(["read", "write"]).optional().describe("Whether the child may change files."),
  isolation: z.enum(["auto", "shared", "worktree"]).optional().describe("Where a writer works."),
  permissions: z.enum(PERMISSIONS).optional().describe("What the child may do unasked."),
  mode: z.enum(["async", "wait"]).optional().describe("Default async: answer at once, then task_wait."),
  waitMs: waitMs.optional(),
  timeoutMs: waitMs.optional().describe("Same as waitMs."),
  maxActiveMs: z
    .number()
    .int()
    .min(1_000)
    .optional()
    .describe("Ends the task after so much running time; default 24 h."),
  resultSchema: bounded(LIMITS.resultSchemaBytesMax, "JSON Schema, as text, that the result must fit.").optional(),
  onDuplicate: z
    .enum(["join", "refuse", "allow"])
    .optional()
    .describe("If the same work is under way under another key."),
  onBusy: z.enum(["refuse", "queue"]).optional().describe("If another writer has the directory."),
  background: z.enum(["reap", "keep"]).optional().describe("What happens to processes that the child leaves behind."),
  labels: z.array(z.string().min(1).max(100)).max(LIMITS.labelsMax).optional(),
});

export const CONTINUE = z.strictObject({
  taskId: id("The task (any of its three ids)."),
  message: bounded(LIMITS.taskBytesMax, "What the child shall do next."),
  clientRequestId: key,
  afterSettlement: z
    .number()
    .int()
    .min(0)
    .optional()
    .describe("Copy from the last answer: if somebody has continued the task since, nothing is sent."),
  agent: plainWord("Another agent for the same task.").optional(),
  model: plainWord("Another model.").optional(),
  options: options.optional(),
  mode: z.enum(["async", "wait"]).optional(),
  waitMs: waitMs.optional(),
  timeoutMs: waitMs.optional().describe("Same as waitMs."),
});

export const WAIT = z.strictObject({
  taskIds: z
    .array(id("A task id."))
    .max(LIMITS.waitTasksMax)
    .optional()
    .describe("Up to 50; default: your open and unread tasks."),
  until: z.enum(["any", "all"]).optional().describe("Default any: the first news. all: when every task has ended."),
  after: z.string().max(4_096).optional().describe("Copy from next.arguments: what you have been told already."),
  waitMs: waitMs.optional(),
  timeoutMs: waitMs.optional().describe("Same as waitMs."),
});

export const STATUS = z
  .strictObject({
    taskId: id("The task (any of its three ids).").optional(),
    clientRequestId: z
      .string()
      .min(1)
      .max(LIMITS.keyCharactersMax)
      .optional()
      .describe("Or the key that you sent with delegate_task."),
  })
  .refine((args) => args.taskId !== undefined || args.clientRequestId !== undefined, {
    path: ["taskId"],
    message: "taskId or clientRequestId",
  });

export const LIST = z.strictObject({
  open: z.boolean().optional().describe("Only tasks that have not ended."),
  unread: z.boolean().optional().describe("Only results that you have not confirmed."),
  conversation: z.enum(["all", "this"]).optional(),
  status: z.enum(["working", "input_required", "completed", "failed", "cancelled"]).optional(),
  parentTaskId: id("Only children of this task.").optional(),
  limit: z.number().int().min(1).max(LIMITS.listLimitMax).optional().describe("Default 20."),
  cursor: z
    .string()
    .max(200)
    .refine((text) => parseId(text).kind === "task", "nextCursor of the page before, as it was")
    .optional()
    .describe("nextCursor of the page before."),
});

export const CANCEL = z.strictObject({
  taskId: id("The task (any of its three ids)."),
  reason: z.string().max(500).optional(),
});

export const ACK = z.strictObject({
  taskId: id("The task (any of its three ids)."),
  settlement: z.number().int().min(1).describe("The settlement number of the result that you have."),
});

export const ANSWER = z.strictObject({
  taskId: id("The task (any of its three ids)."),
  questionId: id("question.questionId of the answer that reported it."),
  optionId: z.string().min(1).max(LIMITS.keyCharactersMax).optional().describe("One of question.optionIds."),
  text: bounded(LIMITS.answerTextBytesMax, "Or an answer in words, to a question; not to a permission.").optional(),
});

export const READ = z
  .strictObject({
    childThreadId: id("The thread (any of the task's three ids).").optional(),
    taskId: id("Or the task.").optional(),
    view: z
      .enum(["messages", "result", "changes", "events"])
      .optional()
      .describe("Default messages: the conversation. result: the full final text. changes: the diff. events: the log."),
    find: z
      .string()
      .min(1)
      .max(LIMITS.findCharactersMax)
      .optional()
      .describe("Only the places that contain this text, in any case."),
    cursor: z.string().max(100).optional().describe("nextCursor of the page before."),
    limit: z
      .number()
      .int()
      .min(LIMITS.pageCharactersMin)
      .max(LIMITS.pageCharactersMax)
      .optional()
      .describe("Characters of a page; default 8000."),
  })
  .refine((args) => args.childThreadId !== undefined || args.taskId !== undefined, {
    path: ["childThreadId"],
    message: "childThreadId or taskId",
  });

export const AGENTS = z.strictObject({});

/** A schema with the forms that models send for it. Made once per tool. */
export type ArgumentReader<Args> = {
  readonly inputSchema: JsonSchema;
  read(args: unknown): Read<Args>;
};

export function createArgumentReader<Args>(schema: z.ZodType<Args>): ArgumentReader<Args> {
  const { $schema: _dialect, ...inputSchema } = z.toJSONSchema(schema, { io: "input", reused: "inline" });
  const kinds = kindsOf(inputSchema.properties);
  return {
    inputSchema: { ...inputSchema, type: "object" },
    read(args) {
      const parsed = schema.safeParse(normalised(args, kinds));
      if (parsed.success) return { kind: "read", request: parsed.data };
      const problems = parsed.error.issues.flatMap((issue) => problemsOf(issue, [...kinds.keys()]));
      return { kind: "invalid", problems: problems.slice(0, PROBLEMS_MAX) };
    },
  };
}

/** The arguments as JSON fields, for the fingerprint; anything that is no object has none. */
export function fieldsAsSent(args: unknown): { readonly [field: string]: Json | undefined } {
  return isFields(args) ? args : {};
}

/** The key if it has the right shape; contract §3 looks at it before anything else. */
export function keyAsSent(args: unknown): string | null {
  const value = fieldsAsSent(args)["clientRequestId"];
  const parsed = key.safeParse(emptied(value));
  return parsed.success ? parsed.data : null;
}

const PROBLEMS_MAX = 8;
const NAME_CHARACTERS_MAX = 60;
/** A field of which nothing is left to be shown. */
const NAMELESS = "(a field without a visible name)";

type Kind = "array" | "number" | "boolean" | "object" | "other";

function kindsOf(properties: unknown): ReadonlyMap<string, Kind> {
  const kinds = new Map<string, Kind>();
  for (const [name, property] of Object.entries(isFields(properties) ? properties : {})) {
    const type = isFields(property) ? property["type"] : undefined;
    if (type === "integer" || type === "number") kinds.set(name, "number");
    else if (type === "array" || type === "boolean" || type === "object") kinds.set(name, type);
    else kinds.set(name, "other");
  }
  return kinds;
}

function normalised(args: unknown, kinds: ReadonlyMap<string, Kind>): unknown {
  if (args === undefined || args === null) return {};
  if (!isFields(args)) return args;
  const given = Object.entries(args).filter(([, value]) => value !== null);
  // Unlike an assignment this also keeps a field that is named `__proto__`, so that it is refused like any unknown one.
  return Object.fromEntries(
    given.map(([name, value]) => {
      const kind = kinds.get(name) ?? "other";
      return [name, withoutDepth(typeof value === "string" ? fromText(value, kind) : value, kind)];
    }),
  );
}

/**
 * No schema looks deeper than into one list or record, but its checks do look at what an object calls its `length`, and throw
 * where that is no value to compare. An object in the wrong place is wrong whatever it holds.
 */
function withoutDepth(value: unknown, kind: Kind): unknown {
  if (Array.isArray(value)) return value.map(emptied);
  if (kind !== "object" || !isFields(value)) return emptied(value);
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, emptied(field)]));
}

function emptied(value: unknown): unknown {
  return isFields(value) ? {} : value;
}

/** A value that arrived as text where the schema wants something else. */
function fromText(text: string, kind: Kind): unknown {
  if (kind === "other") return text;
  const value = jsonOf(text);
  if (kind === "array") return Array.isArray(value) ? value : [text];
  return value ?? text;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function problemsOf(issue: z.core.$ZodIssue, known: readonly string[]): readonly FieldProblem[] {
  if (issue.code === "unrecognized_keys")
    return issue.keys.slice(0, PROBLEMS_MAX).map((key) => unknownField(key, known));
  const field = sanitiseLine(issue.path.join("."), NAME_CHARACTERS_MAX);
  return [{ field: field === "" ? "arguments" : field, expected: expectedOf(issue) }];
}

function unknownField(key: string, known: readonly string[]): FieldProblem {
  const meant = likeliest(key, known);
  const expected = meant === null ? "no such field: leave it out" : `no such field: did you mean ${meant}?`;
  const field = sanitiseLine(key, NAME_CHARACTERS_MAX);
  return { field: field === "" ? NAMELESS : field, expected };
}

function expectedOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return `a value of type ${issue.expected}`;
    case "invalid_value":
      return `one of ${issue.values.map(String).join(", ")}`;
    case "too_small":
      return `at least ${issue.minimum} ${issue.origin === "string" ? "characters" : ""}`.trim();
    case "too_big":
      return `at most ${issue.maximum} ${issue.origin === "string" ? "characters" : ""}`.trim();
    default:
      return issue.message;
  }
}

function isFields(value: unknown): value is { readonly [field: string]: Json | undefined } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
