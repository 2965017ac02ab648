/**
 * `delegate_task`: accepts a piece of work once, whatever happens to the call (P3, P4).
 *
 * Order (contract §3): key shape, receipt, validation, limits, workspace. One transaction looks the receipt up, decides
 * and writes everything that makes the task exist; the answer leaves after its commit.
 * Invariant: a refusal leaves nothing behind.
 * Absent on purpose: starting anything. The supervisor does that, from the committed state.
 */

import { actorOf, type Caller } from "../core/caller.ts";
import type { ClaimHolder, DelegateTask } from "../core/command.ts";
import { decide } from "../core/decide.ts";
import { type Handle, nodeIdOf, type TaskId, taskIdFrom, threadIdFrom } from "../core/ids.ts";
import type { NextStep } from "../core/next-step.ts";
import type { Code, Rejection } from "../core/rejection.ts";
import { type Access, PERMISSIONS, type Permission, type Role, type Spec, type Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Answer, DelegateRequest, FieldProblem, Hold, KeyedCall } from "../ports/engine.ts";
import type { IdSource } from "../ports/id-source.ts";
import type { Receipt, ReceiptKey, Store, StoreWriter } from "../ports/store.ts";
import type { Workspace } from "../ports/workspace.ts";
import type { Executor } from "./execute.ts";
import { relatedHolder } from "./holder.ts";
import type { LiveTasks } from "./live-tasks.ts";
import type { Presenter } from "./present.ts";
import { keyOf, type Receipts, suggestKey } from "./receipts.ts";
import type { AgentSettings, EngineSettings } from "../ports/settings.ts";
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
  /** This task was accepted although somebody else writes in its directory. */
  readonly expectWorkspaceBusy: (taskId: TaskId) => void;
};

const TOOL = "delegate_task";

export function createDelegate(world: DelegateWorld) {
  const { store, presenter, receipts, settings, ids } = world;

  return async function delegate(call: KeyedCall<DelegateRequest>, caller: Caller, hold: Hold): Promise<Answer> {
    const { clientRequestId } = call;
    if (clientRequestId === null) return missingKey(call, caller);
    const key = keyOf(caller, TOOL, clientRequestId, null);
    const prepared = await prepare(call);
    if (prepared.kind === "refused") {
      const receipt = await store.receipt(key);
      if (receipt !== null) return replay(receipt, call, caller, hold);
      return refuse(prepared.rejection, caller, clientRequestId);
    }
    const accepted = await acceptOrReplay(key, call, prepared, caller);
    if (accepted.kind === "receipt") return replay(accepted.receipt, call, caller, hold);
    if (accepted.kind === "refused") return refuse(accepted.rejection, caller, clientRequestId);
    const otherLive = world.live.othersIn(accepted.task);
    return world.waitForOne(accepted.task, caller, hold, { created: "new", clientRequestId, otherLive });
  };

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

  /** Everything that can be known before the transaction: fields, agent, permissions, directory. */
  async function prepare(call: KeyedCall<DelegateRequest>): Promise<Prepared> {
    const read = call.read();
    if (read.kind === "invalid") return refused(invalid(read.problems));
    const { request } = read;
    const agentName = request.agent ?? settings.defaultAgent;
    const agent = agentName === null ? undefined : settings.agents.get(agentName);
    if (agentName === null || agent === undefined) return refused(unknownAgent(request.agent, settings));
    const access = request.access ?? defaultAccess(request.role);
    const permissions = request.permissions ?? defaultPermission(access, settings.permissionsMax);
    const limited = tooMuch(permissions, settings.permissionsMax) ?? unsupported(request, agentName);
    if (limited !== null) return refused(limited);
    const resolved = await world.workspace.resolve(request.cwd);
    if (resolved.kind === "refused") {
      return refused(workspaceRejection(resolved.code, resolved.reason, request.cwd, world.workspace.roots));
    }
    const spec = specOf(request, agentName, agent, access, permissions, resolved.path, settings);
    return { kind: "prepared", spec, request };
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
        return { kind: "refused", rejection: await named(world, tx, decision, claimHolder) };
      if (decision.kind === "ignored") throw new Error("invariant broken: a delegation is accepted or refused");
      const texts = [{ name: command.message.name, body: prepared.request.task }];
      const task = await world.executor.append(tx, null, { events: decision.events, atMs }, texts);
      await tx.putReceipt(receipts.make(key, call, handle));
      return { kind: "accepted", task, isBlocked: claimHolder !== null };
    });
    if (accepted.kind === "accepted") {
      if (accepted.isBlocked) world.expectWorkspaceBusy(accepted.task.handle.taskId);
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
    const load = await tx.load({ caller: caller.name, rootTaskId: null, sinceMs });
    return {
      kind: "DelegateTask",
      handle,
      spec,
      origin: {
        caller: caller.name,
        conversation: caller.conversation,
        clientRequestId: key.clientRequestId,
        parentTaskId: null,
        rootTaskId: handle.taskId,
        depth: 1,
      },
      message: { name: "message-1", bytes: Buffer.byteLength(request.task) },
      by: actorOf(caller),
      circumstances: {
        openTasks: load.openTasks,
        openTasksMax: limits.queueMax + limits.concurrentChildren,
        depthMax: limits.depthMax,
        tasksInTree: 0,
        tasksPerTreeMax: limits.tasksPerTreeMax,
        delegationsLastMinute: load.delegationsSince,
        delegationsPerMinuteMax: limits.delegationsPerMinute,
        claimHolder: spec.access === "write" ? await tx.claimHolder(spec.cwd, caller.name) : null,
        onBusy: request.onBusy,
      },
    };
  }
}

type Prepared =
  | { readonly kind: "prepared"; readonly spec: Spec; readonly request: DelegateRequest }
  | { readonly kind: "refused"; readonly rejection: Rejection };

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
): Promise<Rejection> {
  if (refusal.code !== "workspace_busy" || holder === null) return refusal;
  return { ...refusal, related: await relatedHolder(tx, holder, world.clock.wallMs()) };
}

function mint(ids: IdSource): Handle {
  const taskId = taskIdFrom(ids.ulid());
  return { taskId, childThreadId: threadIdFrom(ids.ulid()), nodeId: nodeIdOf(taskId) };
}

function specOf(
  request: DelegateRequest,
  agentName: string,
  agent: AgentSettings,
  access: Access,
  permissions: Permission,
  cwd: string,
  settings: EngineSettings,
): Spec {
  return {
    title: request.title ?? titleOf(request.task),
    role: request.role,
    agent: agentName,
    driver: agent.driver,
    model: request.model ?? agent.model,
    options: request.options,
    cwd,
    access,
    isolation: request.isolation,
    permissions,
    background: request.background,
    resultSchema: request.resultSchema,
    labels: request.labels,
    onLoss: agent.onLoss,
    requireEvidence: agent.requireEvidence,
    policy: {
      maxActiveMs: request.maxActiveMs ?? settings.maxActiveMs,
      ...settings.retry,
      stallAfterMs: settings.stallAfterMs,
      questionDeadlineMs: settings.questionDeadlineMs,
    },
  };
}

const READERS: ReadonlySet<Role> = new Set(["research", "review", "design"]);

function defaultAccess(role: Role): Access {
  return READERS.has(role) ? "read" : "write";
}

function defaultPermission(access: Access, max: Permission): Permission {
  const wanted: Permission = access === "read" ? "plan" : "accept_edits";
  return PERMISSIONS.indexOf(wanted) > PERMISSIONS.indexOf(max) ? max : wanted;
}

function titleOf(task: string): string {
  const line = task.trim().split("\n", 1)[0] ?? "";
  return line.length <= 60 ? line : `${line.slice(0, 59).replace(/[\ud800-\udbff]$/u, "")}…`;
}

function stemOf(title: unknown): string {
  const words = typeof title === "string" ? title.toLowerCase().replace(/[^a-z0-9]+/g, "-") : "";
  return words.replace(/^-|-$/g, "").slice(0, 40) || "task";
}

function rejection(code: Code, next: NextStep, detail: Rejection["detail"]): Rejection {
  return { kind: "rejection", code, next, detail };
}

function refused(what: Rejection): Prepared {
  return { kind: "refused", rejection: what };
}

export function invalid(problems: readonly FieldProblem[]): Rejection {
  const change = Object.fromEntries(problems.map(({ field, expected }) => [field, expected]));
  return rejection("invalid_arguments", { kind: "fix", change }, { fields: problems.map(({ field }) => field) });
}

function unknownAgent(asked: string | null, settings: EngineSettings): Rejection {
  const known = [...settings.agents.keys()];
  const change: Record<string, string> = known[0] === undefined ? {} : { agent: settings.defaultAgent ?? known[0] };
  const next: NextStep = known.length === 0 ? { kind: "ask_user" } : { kind: "fix", change };
  return rejection("unknown_agent", next, asked === null ? { known } : { asked, known });
}

function tooMuch(asked: Permission, max: Permission): Rejection | null {
  if (PERMISSIONS.indexOf(asked) <= PERMISSIONS.indexOf(max)) return null;
  const next: NextStep = { kind: "fix", change: { permissions: max } };
  return rejection("permission_limit", next, { asked, allowed: max, setting: "permissions.max" });
}

/** What this version cannot do is refused by name, never silently done otherwise. */
function unsupported(request: DelegateRequest, agentName: string): Rejection | null {
  if (request.isolation === "worktree") {
    return rejection("workspace_failed", { kind: "fix", change: { isolation: "auto" } }, { reason: "no_worktrees" });
  }
  if (Object.keys(request.options).length > 0) {
    return invalid([{ field: "options", expected: `nothing: agent ${agentName} has no options` }]);
  }
  if (request.resultSchema !== null) {
    return invalid([
      { field: "resultSchema", expected: "nothing: this version does not check results against a schema" },
    ]);
  }
  if (request.model !== null) {
    return invalid([{ field: "model", expected: `nothing: agent ${agentName} takes no model` }]);
  }
  return null;
}

function workspaceRejection(code: Code, reason: string, asked: string | null, roots: readonly string[]): Rejection {
  const change: Record<string, string> = { cwd: roots[0] ?? "a directory" };
  const detail = asked === null ? { reason, roots } : { reason, roots, asked };
  return rejection(code, { kind: "fix", change }, detail);
}
