/**
 * The parts of an engine that most tests do not care about, in their plainest form.
 */

import type { AttemptId } from "../../src/core/ids.ts";
import { parseAttemptId } from "../../src/core/ids.ts";
import { PERMISSIONS } from "../../src/core/task.ts";
import type { EngineWorld } from "../../src/engine/create-engine.ts";
import type { ChildCredentials } from "../../src/ports/credentials.ts";
import type { EngineSettings } from "../../src/ports/settings.ts";
import type { Workspace } from "../../src/ports/workspace.ts";
import { noMeter } from "../../src/system/no-meter.ts";

type PlainParts = Pick<EngineWorld, "meter" | "credentials" | "probe" | "notifiers" | "mask" | "mcpUrl">;

/** Unsigned, so that a test reads what it says; the real ones are made by `config/child-credentials`. */
const PLAIN_CREDENTIALS: ChildCredentials = {
  tokenOf: (attemptId: AttemptId) => `child-${attemptId}`,
  attemptOf: (token) => parseAttemptId(token.replace(/^child-/, ""))?.attemptId ?? null,
};

export const PLAIN_PARTS: PlainParts = {
  meter: noMeter,
  credentials: PLAIN_CREDENTIALS,
  probe: { health: () => "ready" },
  notifiers: [],
  mask: (text) => text,
  mcpUrl: () => null,
};

const DAY_MS = 24 * 3_600_000;

type PlainSettings = Pick<EngineSettings, "approvalsBy" | "retention">;

export const PLAIN_SETTINGS: PlainSettings = {
  approvalsBy: "caller",
  retention: { resultsMs: 30 * DAY_MS, transcriptsMs: 30 * DAY_MS, tombstonesMs: 60 * DAY_MS },
};

export const ALL_LEVELS = PERMISSIONS;

/** Directories outside of git. */
export const NO_GIT: Pick<Workspace, "head" | "changes"> = {
  head: async () => null,
  changes: async () => ({ kind: "none", reason: "not_a_repository" }),
};
