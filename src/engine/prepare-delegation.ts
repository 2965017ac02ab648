/**
 * What can be known of a delegation before its transaction: are its fields valid, is there such an agent, may it have these
 * permissions, is the directory allowed.
 *
 * Invariant: nothing is written; what is refused here has left no trace.
 */

import type { NextStep } from "../core/next-step.ts";
import type { Code, Rejection } from "../core/rejection.ts";
import { type Access, PERMISSIONS, type Permission, type Role, type Spec } from "../core/task.ts";
import type { DelegateRequest, KeyedCall } from "../ports/engine.ts";
import type { AgentSettings, EngineSettings } from "../ports/settings.ts";
import type { Workspace } from "../ports/workspace.ts";
import { beyondLevel, beyondMax, cannotWrite, notOffered } from "./chosen-agent.ts";
import { invalid, rejection, unknownAgent } from "./rejections.ts";

export type PrepareWorld = {
  readonly settings: EngineSettings;
  readonly workspace: Workspace;
  /** The agent of calls that name none; null if there is no agent. */
  readonly defaultAgent: () => string | null;
};

export type Prepared =
  | { readonly kind: "prepared"; readonly spec: Spec; readonly request: DelegateRequest }
  | { readonly kind: "refused"; readonly rejection: Rejection };

/** What a child's own task may do: what it delegates may do no more (P18). */
export type Ceiling = Pick<Spec, "access" | "permissions">;

/** Everything that can be known before the transaction: fields, agent, permissions, directory. */
export async function prepareDelegation(
  call: KeyedCall<DelegateRequest>,
  ceiling: Ceiling | null,
  { settings, workspace, defaultAgent }: PrepareWorld,
): Promise<Prepared> {
  const read = call.read();
  if (read.kind === "invalid") return refused(invalid(read.problems));
  const { request } = read;
  const agentName = request.agent ?? defaultAgent();
  const agent = agentName === null ? undefined : settings.agents.get(agentName);
  if (agentName === null || agent === undefined) return refused(unknownAgent(request.agent, settings));
  const access = request.access ?? (ceiling?.access === "read" ? "read" : defaultAccess(request.role));
  const max = ceiling === null ? settings.permissionsMax : lower(settings.permissionsMax, ceiling.permissions);
  const permissions = request.permissions ?? defaultPermission(access, max);
  const limited =
    beyondMax(permissions, settings.permissionsMax, {
      kind: "fix",
      change: { permissions: settings.permissionsMax },
    }) ??
    beyondCeiling(access, permissions, ceiling) ??
    beyondLevel(agentName, agent, permissions) ??
    cannotWrite(agentName, agent, access, READ_ONLY) ??
    unsupported(request) ??
    notOffered(agentName, agent, request);
  if (limited !== null) return refused(limited);
  const resolved = await workspace.resolve(request.cwd);
  if (resolved.kind === "refused") {
    return refused(workspaceRejection(resolved.code, resolved.reason, request.cwd, workspace.roots));
  }
  const spec = specOf(request, agentName, agent, access, permissions, resolved.path, settings);
  return { kind: "prepared", spec, request };
}

function refused(what: Rejection): Prepared {
  return { kind: "refused", rejection: what };
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

const READ_ONLY: NextStep = { kind: "fix", change: { access: "read" } };
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

function lower(one: Permission, other: Permission): Permission {
  return PERMISSIONS.indexOf(one) < PERMISSIONS.indexOf(other) ? one : other;
}

function beyondCeiling(access: Access, permissions: Permission, ceiling: Ceiling | null): Rejection | null {
  if (ceiling === null) return null;
  if (access === "write" && ceiling.access === "read") {
    const detail = { what: "access", asked: "write", allowed: "read", setting: "the access of your own task" };
    return rejection("permission_limit", READ_ONLY, detail);
  }
  const allowed = ceiling.permissions;
  if (PERMISSIONS.indexOf(permissions) <= PERMISSIONS.indexOf(allowed)) return null;
  const detail = { asked: permissions, allowed, setting: "the permissions of your own task" };
  return rejection("permission_limit", { kind: "fix", change: { permissions: allowed } }, detail);
}

/** What this version cannot do is refused by name, never silently done otherwise. */
function unsupported(request: DelegateRequest): Rejection | null {
  if (request.isolation === "worktree") {
    return rejection("workspace_failed", { kind: "fix", change: { isolation: "auto" } }, { reason: "no_worktrees" });
  }
  if (request.resultSchema !== null) {
    return invalid([
      { field: "resultSchema", expected: "nothing: this version does not check results against a schema" },
    ]);
  }
  return null;
}

function workspaceRejection(code: Code, reason: string, asked: string | null, roots: readonly string[]): Rejection {
  const change: Record<string, string> = { cwd: roots[0] ?? "a directory" };
  const detail = asked === null ? { reason, roots } : { reason, roots, asked };
  return rejection(code, { kind: "fix", change }, detail);
}
