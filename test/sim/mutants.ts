/**
 * Daemons that are wrong in one known way each: if the simulator finds them, its rules bite.
 *
 * A mutant is put together outside the product: a wrapper of a port, a rule of the simulated host, or (by a switch) a wrong
 * twin of one function. Nothing in the product knows of them.
 * Absent on purpose: the mutant that lets the same work under another key start a twin. Nothing joins twins yet, so there is
 * nothing to leave out.
 */

import type { Answer } from "../../src/ports/engine.ts";
import type { Caller } from "../../src/core/caller.ts";
import type { TaskId } from "../../src/core/ids.ts";
import type { Task } from "../../src/core/task.ts";
import type { RunningEngine } from "../../src/engine/create-engine.ts";
import type { Children } from "../../src/ports/children.ts";
import type { Receipt, Store, StoreWriter } from "../../src/ports/store.ts";
import { viewsOf } from "./answers.ts";
import type { Mutation, MutationTools } from "./daemon.ts";
import { sleep } from "./life.ts";
import type { Switch } from "./mutant-switches.ts";

export type Mutant = {
  readonly name: string;
  /** What is wrong with it. */
  readonly says: string;
  /** The promises that it breaks. */
  readonly promises: readonly string[];
  /** Rules of which one has to find it. */
  readonly rules: readonly string[];
  readonly mutation: Mutation;
  readonly switches: readonly Switch[];
  /** The first seed that finds it, from 1 on, when that was last measured. */
  readonly firstSeed: number;
  /** The test outside the simulator that holds the same promise, where seeds that find the mutant are rare. */
  readonly heldBy: string | null;
};

const NONE_STARTED = {
  kind: "proven",
  stop: { proof: "none_started", survivors: [], kept: [], by: null },
} as const;

/** The receipt follows in a transaction of its own. */
function receiptOutside(store: Store): Store {
  return {
    ...store,
    async write(work) {
      const late: Receipt[] = [];
      const result = await store.write((tx) => work({ ...tx, putReceipt: async (receipt) => void late.push(receipt) }));
      for (const receipt of late) await store.write((tx) => tx.putReceipt(receipt));
      return result;
    },
  };
}

/** A write is reported as done while its commit is still to come. */
function answerBeforeCommit(store: Store, { clock, random }: MutationTools): Store {
  return {
    ...store,
    write: (work) =>
      new Promise((resolve, reject) => {
        const commit = store.write(async (tx) => {
          const outcome = await work(tx);
          resolve(outcome);
          await sleep(clock, random.int(1, 200));
          return outcome;
        });
        commit.catch(reject);
      }),
  };
}

/** Decisions are made on what was read before the transaction, and written over whatever is there by then. */
function withoutFence(store: Store): Store {
  return {
    ...store,
    async write(work) {
      const drafts = new Map<TaskId, Task>();
      const writes: ((tx: StoreWriter) => Promise<unknown>)[] = [];
      const result = await work({
        task: async (taskId) => drafts.get(taskId) ?? store.task(taskId),
        receipt: (key) => store.receipt(key),
        putReceipt: async (receipt) => void writes.push((tx) => tx.putReceipt(receipt)),
        async append(change) {
          drafts.set(change.task.handle.taskId, change.task);
          writes.push(async (tx) => {
            const expectedVersion = (await tx.task(change.task.handle.taskId))?.version ?? 0;
            const task = { ...change.task, version: expectedVersion + change.events.length };
            await tx.append({ ...change, task, expectedVersion });
          });
          return true;
        },
        claimHolder: (path, caller) => store.write((tx) => tx.claimHolder(path, caller)),
        putClaim: async (claim) => void writes.push((tx) => tx.putClaim(claim)),
        hasClaim: (taskId) => store.write((tx) => tx.hasClaim(taskId)),
        unfinishedBelow: (path) => store.unfinishedBelow(path),
        appendTranscript: async (...entries) => void writes.push((tx) => tx.appendTranscript(...entries)),
        dropTranscript: async (taskId) => void writes.push((tx) => tx.dropTranscript(taskId)),
        putNotices: async (notices) => void writes.push((tx) => tx.putNotices(notices)),
        dropNotice: async (noticeId) => void writes.push((tx) => tx.dropNotice(noticeId)),
        delayNotice: async (noticeId, dueAtMs) => void writes.push((tx) => tx.delayNotice(noticeId, dueAtMs)),
        dropClaim: async (taskId) => void writes.push((tx) => tx.dropClaim(taskId)),
        load: (query) => store.write((tx) => tx.load(query)),
        countShown: async (shown) => void writes.push((tx) => tx.countShown(shown)),
        purge: async (taskId) => void writes.push((tx) => tx.purge(taskId)),
        forgetReceipts: async () => 0,
      });
      await store.write(async (tx) => {
        for (const write of writes) await write(tx);
      });
      return result;
    },
  };
}

/** Every directory counts as free. */
function withoutClaims(store: Store): Store {
  return { ...store, write: (work) => store.write((tx) => work({ ...tx, claimHolder: async () => null })) };
}

/** Everything is called gone, and nothing was done. */
function withoutStopProof(children: Children): Children {
  return { ...children, stop: async () => NONE_STARTED };
}

/** Only what this daemon has started itself is ever stopped. */
function withoutReap(children: Children): Children {
  const own = new Set<string>();
  return {
    ...children,
    spawn(spec) {
      own.add(spec.mark);
      return children.spawn(spec);
    },
    stop: async (target) => (own.has(target.mark) ? children.stop(target) : NONE_STARTED),
  };
}

/** What an answer shows of a settlement counts as read. */
function readingConsumes(engine: RunningEngine): RunningEngine {
  const consumed = async (answered: Promise<Answer>, caller: Caller): Promise<Answer> => {
    const answer = await answered;
    for (const { handle, phase, settlements } of viewsOf(answer)) {
      if (phase === "settled") await engine.acknowledge({ taskId: handle.taskId, settlement: settlements }, caller);
    }
    return answer;
  };
  return {
    ...engine,
    get waiting() {
      return engine.waiting;
    },
    status: (request, caller) => consumed(engine.status(request, caller), caller),
    wait: (request, caller, hold) => consumed(engine.wait(request, caller, hold), caller),
  };
}

type Defaults = "mutation" | "switches" | "heldBy";
type Wrong = Omit<Mutant, Defaults> & Partial<Pick<Mutant, Defaults>>;

const WRONG: readonly Wrong[] = [
  {
    name: "receipt outside",
    says: "the receipt is written after the task, in a transaction of its own",
    promises: ["P3"],
    rules: ["one-per-key"],
    mutation: { store: receiptOutside },
    firstSeed: 3,
  },
  {
    name: "answer before commit",
    says: "a call is answered while its commit is still to come",
    promises: ["P4"],
    rules: ["durable"],
    mutation: { store: answerBeforeCommit },
    firstSeed: 1,
  },
  {
    name: "no version fence",
    says: "a change is written over whatever the task is by then",
    promises: ["P3"],
    rules: ["numbering", "snapshot", "epochs"],
    mutation: { store: withoutFence },
    firstSeed: 1,
  },
  {
    name: "no epoch fence",
    says: "what a driver still says when its attempt is over counts as the newest attempt's",
    promises: ["P5"],
    rules: ["own-word", "epochs", "reported", "ended-means-stopped"],
    switches: ["noEpochFence", "neverHangsUp"],
    firstSeed: 256,
    heldBy: "test/core/attempt.test.ts",
  },
  {
    name: "no stop proof",
    says: "processes are called gone without a look",
    promises: ["P5", "P12"],
    rules: ["ended-means-stopped"],
    mutation: { children: withoutStopProof },
    firstSeed: 1,
  },
  {
    name: "no reap",
    says: "what an earlier daemon started is never looked for",
    promises: ["P5"],
    rules: ["one-child", "ended-means-stopped"],
    mutation: { children: withoutReap },
    firstSeed: 1,
  },
  {
    name: "no guard",
    says: "nobody stops the children of a dead or frozen daemon",
    promises: ["P14"],
    rules: ["attended"],
    mutation: { host: { guardStops: false } },
    firstSeed: 1,
  },
  {
    name: "no guard and no reap",
    says: "nobody at all stops what an earlier daemon started",
    promises: ["P5", "P10"],
    rules: ["one-child"],
    mutation: { host: { guardStops: false }, children: withoutReap },
    firstSeed: 1,
  },
  {
    name: "late spawn",
    says: "a start that was under way is carried out after its attempt was stopped",
    promises: ["P5", "P12"],
    rules: ["ended-means-stopped", "mark-first"],
    mutation: { host: { remembersStops: false } },
    firstSeed: 3,
  },
  {
    name: "lost wakes",
    says: "one wake in three does not arrive, and nobody looks again",
    promises: ["P8"],
    rules: ["wakes"],
    switches: ["lostWakes"],
    firstSeed: 1,
  },
  {
    name: "reading consumes",
    says: "what was shown counts as read",
    promises: ["P9"],
    rules: ["by-word"],
    mutation: { engine: readingConsumes },
    firstSeed: 1,
  },
  {
    name: "claims off",
    says: "every directory counts as free",
    promises: ["P10"],
    rules: ["one-writer"],
    mutation: { store: withoutClaims },
    firstSeed: 3,
  },
  {
    name: "settlement reused",
    says: "a continued task settles under its earlier number",
    promises: ["P2"],
    rules: ["settlements"],
    switches: ["settlementReused"],
    firstSeed: 1,
  },
  {
    name: "key per conversation",
    says: "a key counts within one conversation instead of for its caller",
    promises: ["P3"],
    rules: ["one-per-key"],
    switches: ["keyPerConversation"],
    firstSeed: 1,
  },
  {
    name: "sleep forgotten",
    says: "time in which the machine slept counts as time",
    promises: ["P6"],
    rules: ["patience", "stalls"],
    switches: ["sleepForgotten"],
    firstSeed: 2,
  },
];

export const MUTANTS: readonly Mutant[] = WRONG.map((wrong) => ({
  mutation: {},
  switches: [],
  heldBy: null,
  ...wrong,
}));
