/**
 * How records of older forms become records of the next form.
 *
 * Invariant: an upcaster is never changed once its form has been released; the next change of form adds one.
 * Invariant: what an upcaster does not understand it leaves as it is, so that the codec refuses it by name.
 */

import { isRecord, type JsonRecord } from "./json-record.ts";

/** Lifts a record of version n to version n + 1; kept under n. */
export type Upcasters = Readonly<Record<number, (record: unknown) => unknown>>;

export const TASK_UPCASTERS: Upcasters = { 1: taskFromForm1 };
export const EVENT_UPCASTERS: Upcasters = { 1: eventFromForm1 };

/** Form 2: ancestors, the commit at the start, the newest answer, and who shall work from a message on. */
function taskFromForm1(task: unknown): unknown {
  if (!isRecord(task)) return task;
  const { origin, messages } = task;
  return {
    ...task,
    origin: withAncestors(origin),
    startHead: null,
    lastAnswer: null,
    messages: Array.isArray(messages) ? messages.map(withoutChoice) : messages,
  };
}

/** Form 2: ancestors, the commit at the start, and choices as objects. */
function eventFromForm1(event: unknown): unknown {
  if (!isRecord(event)) return event;
  switch (event["kind"]) {
    case "TaskAccepted":
      return { ...event, origin: withAncestors(event["origin"]) };
    case "AttemptStarted":
      return { ...event, head: null };
    case "InputAnswered":
      return { ...event, choice: { kind: "option", optionId: event["choice"] } };
    case "MessageQueued":
      return withoutChoice(event);
    case "TaskReopened":
      return reopenedByChoice(event);
    default:
      return event;
  }
}

/** With form 1 a child could not delegate, so a parent is the only task above one. */
function withAncestors(origin: unknown): unknown {
  if (!isRecord(origin)) return origin;
  const { parentTaskId } = origin;
  return { ...origin, ancestors: parentTaskId === null ? [] : [parentTaskId] };
}

function withoutChoice(message: unknown): unknown {
  return isRecord(message) ? { ...message, choice: null } : message;
}

function reopenedByChoice({ agent, driver, model, ...rest }: JsonRecord): unknown {
  return { ...rest, choice: { agent, driver, model } };
}
