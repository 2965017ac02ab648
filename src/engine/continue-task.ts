/**
 * `task_continue`: a further message to the same child, in the same conversation, under the same ids (P2).
 *
 * Invariant: a message is sent once per key, and not at all if somebody has continued the task past what the caller knows.
 */

import { actorOf, type Caller } from "../core/caller.ts";
import type { ContinueTask } from "../core/command.ts";
import type { Decision } from "../core/decision.ts";
import { hasMovedOn } from "../core/decide-task.ts";
import type { NextStep } from "../core/next-step.ts";
import type { Rejection } from "../core/rejection.ts";
import type { Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Answer, ContinueRequest, Hold, KeyedCall } from "../ports/engine.ts";
import type { IdSource } from "../ports/id-source.ts";
import type { Receipt, Store, StoreWriter } from "../ports/store.ts";
import { invalid } from "./delegate.ts";
import type { Executor } from "./execute.ts";
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

export function createContinue(world: ContinueWorld) {
  const { store, presenter, receipts, lookup, ids } = world;

  return async function continueTask(call: KeyedCall<ContinueRequest>, caller: Caller, hold: Hold): Promise<Answer> {
    const { clientRequestId } = call;
    if (clientRequestId === null) {
      const next: NextStep = { kind: "choose_key", clientRequestId: suggestKey("continue", ids) };
      return refuse({ kind: "rejection", code: "missing_client_request_id", next, detail: {} }, caller, null);
    }
    const asked = typeof call.sent["taskId"] === "string" ? call.sent["taskId"] : "";
    const task = await lookup.find(asked, caller);
    const read = call.read();
    if (task === null) {
      return read.kind === "invalid"
        ? refuse(invalid(read.problems), caller, clientRequestId)
        : lookup.unknown(asked, caller);
    }
    const key = keyOf(caller, TOOL, clientRequestId, task.handle.taskId);
    const receipt = await store.receipt(key);
    if (receipt !== null) return replay(receipt, call, caller, hold);
    if (read.kind === "invalid") return refuse(invalid(read.problems), caller, clientRequestId);
    const refusedAgent = unknownAgent(read.request);
    if (refusedAgent !== null) return refuse(refusedAgent, caller, clientRequestId);
    return send(task, receipts.make(key, call, task.handle), read.request, call, caller, hold);
  };

  async function send(
    task: Task,
    receipt: Receipt,
    request: ContinueRequest,
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
      agent: request.agent,
      driver: request.agent === null ? null : (world.settings.agents.get(request.agent)?.driver ?? null),
      model: request.model,
    };
    let earlier: Receipt | null = null;
    const executed = await world.executor.execute(task.handle.taskId, command, {
      receipt,
      texts: [{ name, body: request.message }],
      guard: async (tx, current) => {
        earlier = await tx.receipt(receipt);
        if (earlier !== null) return { kind: "ignored", why: "not_startable" };
        return busyOf(tx, current, caller);
      },
    });
    if (earlier !== null) return replay(earlier, call, caller, hold);
    if (executed.decision.kind === "rejection") return refuse(executed.decision, caller, clientRequestId);
    const now = executed.task ?? task;
    const moved = request.afterSettlement !== null && hasMovedOn(task, request.afterSettlement);
    if (moved) return presenter.answer(now, caller, { created: "none", movedOn: true, clientRequestId });
    const sent = task.state.kind === "settled" ? "started" : "queued";
    return world.waitForOne(now, caller, hold, { created: "new", sent, clientRequestId });
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
    return { kind: "rejection", code: "workspace_busy", next: { kind: "repeat_same_call" }, detail };
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
    return world.waitForOne(replayed.task, caller, hold, extra);
  }

  function unknownAgent({ agent }: ContinueRequest): Rejection | null {
    const known = [...world.settings.agents.keys()];
    if (agent === null || known.includes(agent)) return null;
    const next: NextStep = { kind: "fix", change: { agent: known[0] ?? "" } };
    return { kind: "rejection", code: "unknown_agent", next, detail: { asked: agent, known } };
  }

  function refuse(rejection: Rejection, caller: Caller, clientRequestId: string | null): Promise<Answer> {
    return presenter.refusal(rejection, caller, { created: "none", clientRequestId });
  }
}
