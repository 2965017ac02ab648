/**
 * What operators and people do besides delegating, put together (`ports/upkeep`).
 */

import { attemptOf } from "../core/evolve.ts";
import type { Clock } from "../ports/clock.ts";
import type { EngineSettings } from "../ports/settings.ts";
import type { Store } from "../ports/store.ts";
import type { Upkeep } from "../ports/upkeep.ts";
import { exportLines } from "./export-task.ts";
import type { Followers } from "./followers.ts";
import type { LiveTasks } from "./live-tasks.ts";
import type { Lookup } from "./lookup.ts";
import type { Retention } from "./retention.ts";

export function createUpkeep(world: {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: EngineSettings;
  readonly lookup: Lookup;
  readonly live: LiveTasks;
  readonly retention: Retention;
  readonly followers: Followers;
  readonly queued: () => number;
  readonly waiting: () => number;
}): Upkeep {
  const { store, clock, settings, lookup, live } = world;
  return {
    async exportTask(id, caller) {
      const task = await lookup.find(id, caller);
      return task === null ? null : exportLines(store, clock, task);
    },
    prune: world.retention.prune,
    follow: world.followers.follow,
    host() {
      const running = [...live.all()].flatMap(({ handle, state }) => {
        const attempt = attemptOf(state);
        if (attempt === null) return [];
        return [{ taskId: handle.taskId, attemptId: attempt.attemptId, pid: attempt.process?.pid ?? null }];
      });
      return { daemonId: settings.daemonId, running, queued: world.queued(), waiting: world.waiting() };
    },
  };
}
