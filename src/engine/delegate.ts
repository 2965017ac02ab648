/**
 * `delegate_task`: accepts a piece of work once, whatever happens to the call (P3, P4).
 *
 * Order (contract §3): key shape, receipt, validation, limits, workspace. One transaction looks the receipt up, decides
 * and writes everything that makes the task exist; the answer leaves after its commit.
 * Invariant: a refusal leaves nothing behind.
 * Absent on purpose: starting anything. The supervisor does that, from the committed state.
 */

import { actorOf, type Caller, parentOf, pathOf } from "../core/caller.ts";
import type { ClaimHolder, DelegateTask } from "../core/command.ts";
import { decide } from "../core/decide.ts";
import { type Handle, nodeIdOf, type TaskId, taskIdFrom, threadIdFrom } from "../core/ids.ts";
import type { NextStep } from "../core/next-step.ts";
import type { Rejection } from "../core/rejection.ts";
import type { Task } from "../core/task.ts";
import { overlaps } from "../core/workspace-claim.ts";
import type { Clock } from "../ports/clock.ts";
import type { Answer, DelegateRequest, Hold, KeyedCall } from "../ports/engine.ts";
import type { IdSource } from "../ports/id-source.ts";
import type { Receipt, ReceiptKey, Store, StoreWriter } from "../ports/store.ts";
import type { Workspace } from "../ports/workspace.ts";
import { isAtWork } from "./child-of.ts";
import type { Executor } from "./execute.ts";
import { relatedHolder } from "./holder.ts";
import type { LiveTasks } from "./live-tasks.ts";
import { type Ceiling, type Prepared, prepareDelegation } from "./prepare-delegation.ts";
import type { Presenter } from "./present.ts";
import { keyOf, type Receipts, suggestKey } from "./receipts.ts";
import { rejection } from "./rejections.ts";
import type { EngineSettings } from "../ports/settings.ts";
import { isStorageTrouble } from "./storage.ts";
import type { WaitForOne } from "./wait.ts";

export type DelegateWorld = {
  readonly store: Store;
  readonly executor: Executor;
  readonly presenter: Presenter;
  readonly receipts: Receipts;
  readonly live: LiveTasks;
  readonly workspace: Workspace;
  readonly settings: EngineSettings;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly waitForOne: WaitForOne;
  readonly defaultAgent: () => string | null;
  /** This task was accepted although somebody else writes in its directory. */
  readonly expectWorkspaceBusy: (task: Task) => void;
};

const TOOL = "delegate_task";

export function createDelegate(world: DelegateWorld) {
  const { store, presenter, receipts, settings, ids } = world;

  return async function delegate(call: KeyedCall<DelegateRequest>, caller: Caller, hold: Hold): Promise<Answer> {
    const { clientRequestId } = call;
    if (clientRequestId === null) return missingKey(call, caller);
    const key = keyOf(caller, TOOL, clientRequestId, null);
    const prepared = await prepareDelegation(call, await ceilingOf(caller), world);
    if (prepared.kind === "refused") {
      const receipt = await store.receipt(key);
      if (receipt !== null) return replay(receipt, call, caller, hold);
      return refuse(prepared.rejection, caller, clientRequestId);
    }
    const accepted = await acceptOrReplay(key, call, prepared, caller);
    if (accepted.kind === "receipt") return replay(accepted.receipt, call, caller, hold);
    if (accepted.kind === "refused") return refuse(accepted.rejection, caller, clientRequestId);
    const otherLive = world.live.othersIn(accepted.task, caller);
    return world.waitForOne(accepted.task, caller, hold, { created: "new", clientRequestId, otherLive });
  };

  async function ceilingOf(caller: Caller): Promise<Ceiling | null> {
    return caller.kind === "child" ? ((await store.task(caller.lineage.taskId))?.spec ?? null) : null;
  }

  async function missingKey(call: KeyedCall<DelegateRequest>, caller: Caller): Promise<Answer> {
    const next: NextStep = { kind: "choose_key", clientRequestId: suggestKey(stemOf(call.sent["title"]), ids) };
    return refuse(rejection("missing_client_request_id", next, {}), caller, null);
  }

  function refuse(refused: Rejection, caller: Caller, clientRequestId: string | null): Promise<Answer> {
    return presenter.refusal(refused, caller, { created: "none", clientRequestId });
  }

  async function replay(
    receipt: Receipt,
    call: KeyedCall<DelegateRequest>,
    caller: Caller,
    hold: Hold,
  ): Promise<Answer> {
    const { clientRequestId } = receipt;
    const replayed = await receipts.answer(receipt, call, caller);
    if (replayed.kind === "answer") return replayed.answer;
    const extra = { created: "replayed", replayedAgeMs: replayed.ageMs, clientRequestId } as const;
    if (!replayed.stale) return world.waitForOne(replayed.task, caller, hold, extra);
    const next: NextStep = { kind: "choose_key", clientRequestId: suggestKey(clientRequestId, ids) };
    return presenter.answer(replayed.task, caller, { ...extra, notANewRun: true, next });
  }

  /** A repeat is recognised also while nothing new can be written. */
  async function acceptOrReplay(...asked: Parameters<typeof accept>): Promise<Accepted> {
    try {
      return await accept(...asked);
    } catch (error) {
      const receipt = isStorageTrouble(error) ? await store.receipt(asked[0]) : null;
      if (receipt === null) throw error;
      return { kind: "receipt", receipt };
    }
  }

  async function accept(
    key: ReceiptKey,
    call: KeyedCall<DelegateRequest>,
    prepared: Prepared & { readonly kind: "prepared" },
    caller: Caller,
  ): Promise<Accepted> {
    const handle = mint(ids);
    const accepted = await store.write(async (tx): Promise<Accepted> => {
      const receipt = await tx.receipt(key);
      if (receipt !== null) return { kind: "receipt", receipt };
      const command = await commandOf(tx, handle, prepared, key, caller);
      const atMs = world.clock.wallMs();
      const decision = decide(null, command, atMs);
      const { claimHolder } = command.circumstances;
      if (decision.kind === "rejection")
        return { kind: "refused", rejection: await named(world, tx, decision, claimHolder, caller) };
      if (decision.kind === "ignored") throw new Error("invariant broken: a delegation is accepted or refused");
      const texts = [{ name: command.message.name, body: prepared.request.task }];
      const task = await world.executor.append(tx, null, { events: decision.events, atMs }, texts);
      await tx.putReceipt(receipts.make(key, call, handle));
      return { kind: "accepted", task, isBlocked: claimHolder !== null };
    });
    if (accepted.kind === "accepted") {
      if (accepted.isBlocked) world.expectWorkspaceBusy(accepted.task);
      world.executor.announce(null, accepted.task);
    }
    return accepted;
  }

  async function commandOf(
    tx: StoreWriter,
    handle: Handle,
    prepared: Prepared & { readonly kind: "prepared" },
    key: ReceiptKey,
    caller: Caller,
  ): Promise<DelegateTask> {
    const { spec, request } = prepared;
    const { limits } = settings;
    const sinceMs = world.clock.wallMs() - 60_000;
    const holder = spec.access === "write" ? await tx.claimHolder(spec.cwd, caller.name) : null;
    const ancestors = caller.kind === "child" ? pathOf(caller.lineage) : [];
    const rootTaskId = ancestors[0] ?? null;
    const load = await tx.load({ caller: caller.name, rootTaskId, sinceMs });
    return {
      kind: "DelegateTask",
      handle,
      spec,
      origin: {
        caller: caller.name,
        conversation: caller.conversation,
        clientRequestId: key.clientRequestId,
        parentTaskId: parentOf(caller),
        rootTaskId: rootTaskId ?? handle.taskId,
        ancestors,
        depth: ancestors.length + 1,
      },
      message: { name: "message-1", bytes: Buffer.byteLength(request.task) },
      by: actorOf(caller),
      circumstances: {
        openTasks: load.openTasks,
        openTasksMax: limits.queueMax + limits.concurrentChildren,
        depthMax: limits.depthMax,
        tasksInTree: rootTaskId === null ? 0 : load.tasksInTree,
        tasksPerTreeMax: limits.tasksPerTreeMax,
        delegationsLastMinute: load.delegationsSince,
        delegationsPerMinuteMax: limits.delegationsPerMinute,
        delegatorGone: caller.kind === "child" && !(await isAtWork(tx, caller.lineage)),
        claimHolder: holder,
        holderIsAbove: holder !== null && (await someAboveHolds(tx, ancestors, spec.cwd)),
        onBusy: request.onBusy,
      },
    };
  }
}

type Accepted =
  /** `isBlocked`: somebody else writes in its directory; it waits. */
  | { readonly kind: "accepted"; readonly task: Task; readonly isBlocked: boolean }
  | { readonly kind: "receipt"; readonly receipt: Receipt }
  | { readonly kind: "refused"; readonly rejection: Rejection };

/** A refusal for a busy directory, with whoever holds it. */
async function named(
  world: DelegateWorld,
  tx: StoreWriter,
  refusal: Rejection,
  holder: ClaimHolder | null,
  caller: Caller,
): Promise<Rejection> {
  if (refusal.code !== "workspace_busy" || holder === null) return refusal;
  return { ...refusal, related: await relatedHolder(tx, holder, caller, world.clock.wallMs()) };
}

/** Also where somebody else holds a part of the directory beside it. */
async function someAboveHolds(tx: StoreWriter, ancestors: readonly TaskId[], cwd: string): Promise<boolean> {
  for (const taskId of ancestors) {
    const above = (await tx.hasClaim(taskId)) ? await tx.task(taskId) : null;
    if (above !== null && overlaps(above.spec.cwd, cwd)) return true;
  }
  return false;
}

function mint(ids: IdSource): Handle {
  const taskId = taskIdFrom(ids.ulid());
  return { taskId, childThreadId: threadIdFrom(ids.ulid()), nodeId: nodeIdOf(taskId) };
}

function stemOf(title: unknown): string {
  const words = typeof title === "string" ? title.toLowerCase().replace(/[^a-z0-9]+/g, "-") : "";
  return words.replace(/^-|-$/g, "").slice(0, 40) || "task";
}
