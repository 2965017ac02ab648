/**
 * `task_continue`: a further message to the same child, in the same conversation, under the same ids (P2).
 *
 * Invariant: a message is sent once per key, and not at all if somebody has continued the task past what the caller knows.
 */

import { actorOf, type Caller } from "../core/caller.ts";
import type { ContinueTask } from "../core/command.ts";
import type { Decision } from "../core/decision.ts";
import { parseId, type TaskId } from "../core/ids.ts";
import type { NextStep } from "../core/next-step.ts";
import type { Rejection } from "../core/rejection.ts";
import type { Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Answer, ContinueRequest, Hold, KeyedCall } from "../ports/engine.ts";
import type { IdSource } from "../ports/id-source.ts";
import type { Receipt, Store, StoreWriter } from "../ports/store.ts";
import { type AgentChoice } from "../core/task.ts";
import { chosenAgent } from "./chosen-agent.ts";
import { isAtWork } from "./child-of.ts";
import { invalid, rejection } from "./rejections.ts";
import type { Executor } from "./execute.ts";
import { relatedHolder } from "./holder.ts";
import type { Lookup } from "./lookup.ts";
import type { Presenter } from "./present.ts";
import { keyOf, type Receipts, suggestKey } from "./receipts.ts";
import type { EngineSettings } from "../ports/settings.ts";
import type { WaitForOne } from "./wait.ts";

export type ContinueWorld = {
  readonly store: Store;
  readonly executor: Executor;
  readonly presenter: Presenter;
  readonly receipts: Receipts;
  readonly lookup: Lookup;
  readonly settings: EngineSettings;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly waitForOne: WaitForOne;
};

const TOOL = "task_continue";

/** A child whose own run is over, or is being stopped, sets nothing going any more (C1). */
const DELEGATOR_GONE = rejection("not_allowed", { kind: "do_it_yourself" }, { reason: "delegator_gone" });

export function createContinue(world: ContinueWorld) {
  const { store, presenter, receipts, lookup, ids } = world;

  return async function continueTask(call: KeyedCall<ContinueRequest>, caller: Caller, hold: Hold): Promise<Answer> {
    const { clientRequestId } = call;
    const asked = typeof call.sent["taskId"] === "string" ? call.sent["taskId"] : "";
    const task = await lookup.find(asked, caller);
    if (clientRequestId === null) {
      const next: NextStep = { kind: "choose_key", clientRequestId: suggestKey("continue", ids) };
      return refuse({ kind: "rejection", code: "missing_client_request_id", next, detail: {} }, caller, null, task);
    }
    const taskId = task?.handle.taskId ?? taskIdIn(asked);
    const key = taskId === null ? null : keyOf(caller, TOOL, clientRequestId, taskId);
    const receipt = key === null ? null : await store.receipt(key);
    if (receipt !== null) return replay(receipt, call, caller, hold);
    const read = call.read();
    if (read.kind === "invalid") return refuse(invalid(read.problems), caller, clientRequestId, task);
    if (task === null || key === null) return lookup.unknown(asked, caller, { created: "none", clientRequestId });
    const chosen = chosenAgent(read.request, task, world.settings);
    if (chosen.kind === "rejection") return refuse(chosen, caller, clientRequestId, task);
    return send(task, receipts.make(key, call, task.handle), { ...read.request, ...chosen }, call, caller, hold);
  };

  async function send(
    task: Task,
    receipt: Receipt,
    request: ContinueRequest & { readonly choice: AgentChoice | null },
    call: KeyedCall<ContinueRequest>,
    caller: Caller,
    hold: Hold,
  ): Promise<Answer> {
    const { clientRequestId } = receipt;
    const name = `message-${ids.nonce(8)}`;
    const command: ContinueTask = {
      kind: "ContinueTask",
      message: { name, bytes: Buffer.byteLength(request.message) },
      afterSettlement: request.afterSettlement,
      by: actorOf(caller),
      choice: request.choice,
    };
    let earlier: Receipt | null = null;
    const executed = await world.executor.execute(task.handle.taskId, command, {
      receipt,
      texts: [{ name, body: request.message }],
      guard: async (tx, current) => {
        earlier = await tx.receipt(receipt);
        if (earlier !== null) return { kind: "ignored", why: "not_startable" };
        if (caller.kind === "child" && !(await isAtWork(tx, caller.lineage))) return DELEGATOR_GONE;
        return (await full(tx, current, caller)) ?? busyOf(tx, current, caller);
      },
    });
    if (earlier !== null) return replay(earlier, call, caller, hold);
    const { decision } = executed;
    const now = executed.task ?? task;
    if (decision.kind === "rejection") return refuse(decision, caller, clientRequestId, now);
    // What the transaction decided counts, not what the task was like before it.
    const events = decision.kind === "accepted" ? decision.events : [];
    if (events.length === 0) return presenter.answer(now, caller, { created: "none", movedOn: true, clientRequestId });
    const starts = events.some((event) => event.kind === "RunQueued" && event.message.name === name);
    return world.waitForOne(now, caller, hold, {
      created: "new",
      sent: starts ? "started" : "queued",
      clientRequestId,
    });
  }

  /** A settled task that goes on is one more in the queue, which is no longer than for new ones (P15). */
  async function full(tx: StoreWriter, { state }: Task, caller: Caller): Promise<Decision | null> {
    if (state.kind !== "settled") return null;
    const { queueMax, concurrentChildren } = world.settings.limits;
    const limit = queueMax + concurrentChildren;
    const load = await tx.load({ caller: caller.name, rootTaskId: null, sinceMs: world.clock.wallMs() });
    return load.openTasks < limit ? null : rejection("capacity_full", { kind: "repeat_same_call" }, { limit });
  }

  /** A settled writer gave its directory back; it needs it again before it goes on. */
  async function busyOf(tx: StoreWriter, task: Task, caller: Caller): Promise<Decision | null> {
    if (task.state.kind !== "settled" || task.spec.access !== "write") return null;
    const holder = (await tx.hasClaim(task.handle.taskId)) ? null : await tx.claimHolder(task.spec.cwd, caller.name);
    if (holder === null) return null;
    const detail: Rejection["detail"] = {
      cwd: task.spec.cwd,
      sinceMs: holder.sinceMs,
      mine: holder.mine ? "yes" : "no",
    };
    const related = await relatedHolder(tx, holder, caller, world.clock.wallMs());
    return { kind: "rejection", code: "workspace_busy", next: { kind: "repeat_same_call" }, detail, related };
  }

  async function replay(
    receipt: Receipt,
    call: KeyedCall<ContinueRequest>,
    caller: Caller,
    hold: Hold,
  ): Promise<Answer> {
    const replayed = await receipts.answer(receipt, call, caller);
    if (replayed.kind === "answer") return replayed.answer;
    const { clientRequestId } = receipt;
    const extra = { created: "replayed", replayedAgeMs: replayed.ageMs, clientRequestId } as const;
    if (!replayed.stale) return world.waitForOne(replayed.task, caller, hold, extra);
    const next: NextStep = { kind: "choose_key", clientRequestId: suggestKey(clientRequestId, ids) };
    return presenter.answer(replayed.task, caller, { ...extra, notANewRun: true, next });
  }

  function refuse(
    rejection: Rejection,
    caller: Caller,
    clientRequestId: string | null,
    task: Task | null,
  ): Promise<Answer> {
    const about = task === null ? null : presenter.view(task, caller);
    return presenter.refusal(rejection, caller, { created: "none", clientRequestId, about });
  }
}

/** The id of a task whose data may be gone while its receipts are kept. */
function taskIdIn(asked: string): TaskId | null {
  const parsed = parseId(asked);
  return parsed.kind === "task" ? parsed.taskId : null;
}
