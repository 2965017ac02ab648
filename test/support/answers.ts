/** The parts of an answer that tests look at, read without trusting its shape. */

import { expect } from "vitest";

import type { TestClient, ToolResult } from "./mcp-clients.ts";

export type Shown = {
  readonly say: string;
  readonly status: string;
  readonly phase: string;
  readonly taskId: string;
  readonly childThreadId: string;
  readonly nodeId: string;
  readonly created: string;
  readonly waitEnded: string;
  readonly next: Readonly<Record<string, unknown>>;
  readonly code: string;
  readonly text: string;
  readonly raw: Readonly<Record<string, unknown>>;
};

export function shown({ structured }: ToolResult): Shown {
  const text = (name: string): string => {
    const value = structured[name];
    return typeof value === "string" ? value : "";
  };
  return {
    say: text("say"),
    status: text("status"),
    phase: text("phase"),
    taskId: text("taskId"),
    childThreadId: text("childThreadId"),
    nodeId: text("nodeId"),
    created: text("created"),
    waitEnded: text("waitEnded"),
    next: record(structured["next"]),
    code: String(record(structured["error"])["code"] ?? ""),
    text: String(record(record(structured["fromChild"])["result"])["text"] ?? ""),
    raw: structured,
  };
}

/** P1 for one answer: a next step always, the whole handle wherever a status is told. */
export function expectHandleOrNext(answer: Shown): void {
  expect(answer.next["kind"], answer.say).toBeTypeOf("string");
  if (answer.status === "") return;
  expect(answer.taskId).toMatch(/^dt_[0-9A-Z]{26}$/);
  expect(answer.childThreadId).toMatch(/^th_[0-9A-Z]{26}$/);
  expect(answer.nodeId).toBe(`node:delegated-task:${answer.taskId}`);
}

export async function callShown(client: TestClient, tool: string, args: Record<string, unknown>): Promise<Shown> {
  const answer = shown(await client.call(tool, args));
  expectHandleOrNext(answer);
  return answer;
}

const SLICES_MAX = 60;

/** Waits slice after slice, with the arguments that each answer names, until the task has ended. */
export async function waitUntilEnded(client: TestClient, taskId: string): Promise<Shown> {
  let args: Record<string, unknown> = { taskIds: [taskId] };
  for (let slice = 0; slice < SLICES_MAX; slice += 1) {
    const answer = await callShown(client, "task_wait", { ...args, waitMs: 2_000 });
    if (answer.phase === "settled") return answer;
    args = { ...record(answer.next["arguments"]) };
  }
  throw new Error(`task ${taskId} did not end`);
}

export function record(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
