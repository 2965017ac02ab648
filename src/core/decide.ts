/**
 * Whether a command is accepted, and what then happens: the table of the state machine.
 *
 * Invariant: pure: time, ids and all looked-up facts are arguments; equal inputs give equal decisions.
 * Invariant: a command of an older epoch changes nothing (`stale_epoch`), so a late or doubled driver is harmless.
 * Absent on purpose: receipts. Whether a call is a repeat is known before anything is decided.
 */

import { assertNever } from "./assert.ts";
import type { Command } from "./command.ts";
import {
  decideAdopt,
  decideAsk,
  decideBind,
  decideExpireActive,
  decideFinish,
  decideLose,
  decideProgress,
  decideStalled,
  decideStart,
  decideStop,
} from "./decide-attempt.ts";
import {
  decideAbandon,
  decideAck,
  decideAnswer,
  decideCancel,
  decideContinue,
  decideDelegate,
  decideExpireInput,
  decideSleep,
} from "./decide-task.ts";
import type { Decision } from "./decision.ts";
import type { Task } from "./task.ts";

export function decide(task: Task | null, command: Command, nowMs: number): Decision {
  if (command.kind === "DelegateTask") return decideDelegate(task, command);
  if (task === null) return { kind: "ignored", why: "no_such_task" };
  switch (command.kind) {
    case "StartAttempt":
      return decideStart(task, command, nowMs);
    case "BindChild":
      return decideBind(task, command);
    case "RecordProgress":
      return decideProgress(task, command);
    case "AskInput":
      return decideAsk(task, command, nowMs);
    case "AnswerInput":
      return decideAnswer(task, command);
    case "ExpireInput":
      return decideExpireInput(task, command, nowMs);
    case "FinishAttempt":
      return decideFinish(task, command, nowMs);
    case "LoseAttempt":
      return decideLose(task, command, nowMs);
    case "AdoptAttempt":
      return decideAdopt(task, command);
    case "ReportStop":
      return decideStop(task, command, nowMs);
    case "MarkStalled":
      return decideStalled(task, command, nowMs);
    case "ExpireActive":
      return decideExpireActive(task, command, nowMs);
    case "ForgiveSleep":
      return decideSleep(task, command);
    case "ContinueTask":
      return decideContinue(task, command, nowMs);
    case "CancelTask":
      return decideCancel(task, command, nowMs);
    case "AbandonSurvivors":
      return decideAbandon(task, command, nowMs);
    case "AckDelivery":
      return decideAck(task, command);
    default:
      return assertNever(command);
  }
}
