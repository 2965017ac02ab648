/**
 * The store of a simulated world: one memory store for all daemons, a handle for each life, trouble when the world says so.
 *
 * Invariant: what a dead daemon had not committed is gone; what it had committed stays, whether it heard so or not.
 * Invariant: the history tells of a commit in the moment in which it is made.
 */

import type { Receipt, Store, StoreWriter } from "../../src/ports/store.ts";
import { createMemoryStore } from "../../src/store/memory-store.ts";
import type { Happening } from "../support/history.ts";
import { audienceOf } from "../support/history-scene.ts";
import type { Random } from "../support/sim-random.ts";
import { type Life, sleep } from "./life.ts";
import type { Recorder } from "./recorder.ts";
import type { Clock } from "../../src/ports/clock.ts";

export type SimStore = {
  /** What a life's engine gets. */
  handle(life: Life): Store;
  /** The truth, for whoever looks at the world from outside. */
  readonly truth: Store;
  /** `full`: no commit succeeds. `gone`: nothing succeeds. `doubt`: some commits are made and reported as failed. */
  trouble: "none" | "full" | "gone" | "doubt";
  /** Everything takes up to this much longer. */
  slowMs: number;
};

export function createSimStore(world: {
  readonly clock: Clock;
  readonly random: Random;
  readonly recorder: Recorder;
}): SimStore {
  const { clock, random, recorder } = world;
  /** The work that the memory store is about to commit; works run one after another. */
  let current: { readonly life: Life; readonly written: Happening[] } | null = null;

  const truth = createMemoryStore({
    faults: {
      async at(point) {
        const turn = current;
        if (turn === null) return;
        if (point === "before_commit") {
          if (random.chance(0.15)) await sleep(clock, random.int(1, 20) + random.int(0, sim.slowMs));
          if (!(await turn.life.moving())) throw new Error("the daemon was killed before the commit");
          if (sim.trouble === "full" || sim.trouble === "gone") throw new Error("no space left on device");
        }
        if (point === "after_commit") {
          for (const happening of turn.written) tell(happening);
          if (sim.trouble === "doubt" && random.chance(0.5)) throw new Error("the sync failed");
        }
      },
    },
  });

  function tell(happening: Happening): void {
    recorder.add(happening);
    if (happening.kind === "event") recorder.count("events");
  }

  const sim: SimStore = { truth, trouble: "none", slowMs: 0, handle };
  return sim;

  function handle(life: Life): Store {
    async function slow(): Promise<void> {
      if (sim.slowMs > 0 && random.chance(0.5)) await sleep(clock, random.int(1, sim.slowMs));
      await life.pass();
    }
    async function read<T>(query: () => Promise<T>): Promise<T> {
      await slow();
      if (sim.trouble === "gone") throw Object.assign(new Error("input/output error"), { storageCode: "gone" });
      const found = await query();
      await life.pass();
      return found;
    }
    return {
      async write(work) {
        life.point();
        const written: Happening[] = [];
        // Handed over at once: a real store takes works in the order in which they come, however slow it is.
        const result = await truth.write(async (tx) => {
          await slow();
          current = { life, written };
          const outcome = await work(recording(tx, written));
          if (!life.alive) throw new Error("the daemon was killed during its work");
          return outcome;
        });
        await life.pass();
        return result;
      },
      task: (taskId) => read(() => truth.task(taskId)),
      tasks: (taskIds, reach) => read(() => truth.tasks(taskIds, reach)),
      taskIdOfThread: (threadId) => read(() => truth.taskIdOfThread(threadId)),
      receipt: (key) => read(() => truth.receipt(key)),
      list: (query) => read(() => truth.list(query)),
      unfinished: () => read(() => truth.unfinished()),
      unfinishedBelow: (path) => read(() => truth.unfinishedBelow(path)),
      settledBefore: (beforeMs, limit) => read(() => truth.settledBefore(beforeMs, limit)),
      transcriptsSettledBefore: (beforeMs, limit) => read(() => truth.transcriptsSettledBefore(beforeMs, limit)),
      pending: (query) => read(() => truth.pending(query)),
      text: (taskId, name) => read(() => truth.text(taskId, name)),
      events: (taskId, after, limit) => read(() => truth.events(taskId, after, limit)),
      milestones: (taskId, after, limit) => read(() => truth.milestones(taskId, after, limit)),
      transcript: (taskId, after, limit, bytesMax) => read(() => truth.transcript(taskId, after, limit, bytesMax)),
      dueNotices: (nowMs, limit) => read(() => truth.dueNotices(nowMs, limit)),
      nextNoticeAtMs: () => read(() => truth.nextNoticeAtMs()),
      counts: () => read(() => truth.counts()),
      healthy: () => truth.healthy(),
      async [Symbol.asyncDispose]() {},
    };
  }
}

/** The writer, with everything that it is told to write noted down. */
function recording(tx: StoreWriter, written: Happening[]): StoreWriter {
  return {
    ...tx,
    async append(change) {
      const appended = await tx.append(change);
      if (!appended) return false;
      const { taskId } = change.task.handle;
      change.events.forEach((event, index) => {
        written.push({ kind: "event", taskId, number: change.expectedVersion + index + 1, event });
      });
      return true;
    },
    async putReceipt(receipt) {
      await tx.putReceipt(receipt);
      written.push(receiptEntry(receipt));
    },
    async putClaim(claim) {
      await tx.putClaim(claim);
      written.push({ kind: "claim", taskId: claim.taskId, path: claim.path });
    },
    async dropClaim(taskId) {
      const held = await tx.hasClaim(taskId);
      await tx.dropClaim(taskId);
      if (held) written.push({ kind: "claim", taskId, path: null });
    },
  };
}

function receiptEntry({ caller: name, parentTaskId, tool, clientRequestId, aboutTaskId, taskId }: Receipt): Happening {
  const caller = audienceOf(name, parentTaskId);
  return { kind: "receipt", caller, tool, key: clientRequestId, about: aboutTaskId, taskId };
}
