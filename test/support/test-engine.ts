/**
 * The real engine and the real tools over a memory store, with a clock that stands still, the fake agent and children that
 * are only remembered: what a caller of the tools sees, without a wire and without a wait.
 *
 * Invariant: every answer is held to the contract (`answer-check`) before a test sees it.
 */

import type { Caller } from "../../src/core/caller.ts";
import type { StopReport } from "../../src/core/command.ts";
import type { Survivor } from "../../src/core/task.ts";
import { createFakeDriver, type FakeDriver } from "../../src/drivers/fake/fake-driver.ts";
import { createEngine, type RunningEngine } from "../../src/engine/create-engine.ts";
import type { Tool, ToolContext } from "../../src/mcp/tool.ts";
import { createTools } from "../../src/mcp/tools/create-tools.ts";
import type { Children, StopTarget } from "../../src/ports/children.ts";
import type { Driver } from "../../src/ports/driver.ts";
import type { AgentSettings, EngineSettings } from "../../src/ports/settings.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Workspace } from "../../src/ports/workspace.ts";
import { createMemoryStore, type MemoryStore } from "../../src/store/memory-store.ts";
import { type StorageCode, storageTrouble } from "../../src/store/storage-trouble.ts";
import { createAnswerCheck } from "./answer-check.ts";
import { at, textAt } from "./json.ts";
import { createQuietLog, type QuietLog } from "./quiet-log.ts";
import { createRandom, createSimIds } from "./sim-random.ts";
import { createStepClock, type StepClock } from "./step-clock.ts";
import { type ArmedFaults, createArmedFaults } from "./test-store.ts";
import { noMeter } from "../../src/system/no-meter.ts";
import { ALL_LEVELS, NO_GIT, PLAIN_PARTS, PLAIN_SETTINGS } from "./engine-parts.ts";

export type TestAnswer = {
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
  readonly isError: boolean;
  readonly say: string;
  readonly taskId: string;
};

export type CallOptions = {
  readonly caller?: Caller;
  readonly signal?: AbortSignal;
  /** How long the client bears a held call. */
  readonly sliceMaxMs?: number;
  readonly cwd?: string;
  readonly progress?: (message: string) => void;
};

export type TestEngine = AsyncDisposable & {
  readonly engine: RunningEngine;
  readonly clock: StepClock;
  readonly store: Store;
  readonly trouble: StoreTrouble;
  readonly driver: FakeDriver;
  readonly children: FakeChildren;
  readonly faults: ArmedFaults;
  readonly log: QuietLog;
  readonly tools: readonly Tool[];
  /** Calls a tool. Time stands still meanwhile, unless the test moves it. */
  call(tool: string, args: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<TestAnswer>;
  /** Delegates work to the fake agent; the steps are its script. */
  delegate(
    clientRequestId: string,
    steps: readonly object[],
    args?: Readonly<Record<string, unknown>>,
    options?: CallOptions,
  ): Promise<TestAnswer>;
  status(taskId: string, options?: CallOptions): Promise<TestAnswer>;
  /** A wait that answers at once. */
  peek(args?: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<TestAnswer>;
  /** Lets everything that is ready run; time stands still. */
  settle(): Promise<void>;
  /** Another daemon on the same store: this one is killed (nothing is drained), the new one is started. */
  restart(options?: TestEngineOptions): Promise<TestEngine>;
};

export type TestEngineOptions = {
  readonly limits?: Partial<EngineSettings["limits"]>;
  readonly settings?: Partial<EngineSettings>;
  readonly workspace?: Workspace;
  readonly parts?: Partial<typeof PLAIN_PARTS>;
  /** Beside the fake one. */
  readonly drivers?: readonly Driver[];
  /** False: `engine.start` is left to the test. */
  readonly started?: boolean;
};

export const ALICE = callerOf("alice");
export const BOB = callerOf("bob");

type RootCaller = Extract<Caller, { readonly kind: "caller" | "person" }>;

export function callerOf(name: string, change: Partial<RootCaller> = {}): RootCaller {
  return { name, scopes: ["read", "delegate"], kind: "caller", conversation: null, ...change };
}

const TITLE = "Review the auth diff";

/** A script in the words of a task. */
export function scriptOf(steps: readonly object[], words = "Do what the script says."): string {
  return `${words} ${JSON.stringify({ steps })}`;
}

export async function startTestEngine(options: TestEngineOptions = {}): Promise<TestEngine> {
  return open(createMemoryStore(), createStepClock(), options, 1);
}

async function open(
  memory: MemoryStore,
  clock: StepClock,
  options: TestEngineOptions,
  life: number,
): Promise<TestEngine> {
  const trouble = createStoreTrouble();
  const store = troubled(memory, trouble);
  const driver = createFakeDriver();
  const children = createFakeChildren();
  const faults = createArmedFaults();
  const log = createQuietLog();
  const ids = createSimIds(createRandom(`life ${life}`), clock.wallMs);
  const settings = settingsOf(options);
  const workspace = options.workspace ?? createPlainWorkspace();
  const drivers: ReadonlyMap<string, Driver> = new Map(
    [driver, ...(options.drivers ?? [])].map((one) => [one.name, one]),
  );
  const engine = createEngine({
    ...PLAIN_PARTS,
    ...options.parts,
    store,
    drivers,
    children,
    workspace,
    clock,
    ids,
    log,
    faults,
    settings,
  });
  const tools = createTools({ engine, meter: noMeter, contractVersion: 1, nonce: ids.nonce });
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const check = createAnswerCheck(tools);

  async function call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    how: CallOptions = {},
  ): Promise<TestAnswer> {
    const tool = byName.get(name);
    if (tool === undefined) throw new Error(`no tool ${name}`);
    const given = await tool.call(args, contextOf(tool, args, how));
    // What is not JSON on the wire must not be there.
    const structured: Readonly<Record<string, unknown>> = JSON.parse(JSON.stringify(given.structuredContent));
    const answer = { text: given.content[0].text, structured, isError: given.isError === true };
    check(name, answer);
    return { ...answer, say: textAt(structured, "say"), taskId: textAt(structured, "taskId") };
  }

  const settle = (): Promise<void> => clock.advanceAndSettle(0);
  const test: TestEngine = {
    engine,
    clock,
    store,
    trouble,
    driver,
    children,
    faults,
    log,
    tools,
    call,
    settle,
    delegate: (clientRequestId, steps, args = {}, how = {}) =>
      call("delegate_task", { clientRequestId, title: TITLE, task: scriptOf(steps), role: "review", ...args }, how),
    status: (taskId, how) => call("task_status", { taskId }, how),
    peek: (args = {}, how = {}) => call("task_wait", { ...args, waitMs: 0 }, how),
    async restart(again = options) {
      return open(memory.crash(), clock, again, life + 1);
    },
    async [Symbol.asyncDispose]() {
      trouble.end();
      children.freeStops();
      await engine.drain("stop");
      await memory[Symbol.asyncDispose]();
    },
  };
  if (options.started !== false) await engine.start();
  return test;
}

/** As the wire makes it: a call that may not be held gets no slice. */
function contextOf(tool: Tool, args: unknown, options: CallOptions): ToolContext {
  const asked = Number(at(args, "waitMs") ?? at(args, "timeoutMs") ?? Number.POSITIVE_INFINITY);
  const sliceMaxMs = Math.min(Number.isNaN(asked) ? Number.POSITIVE_INFINITY : asked, options.sliceMaxMs ?? 25_000);
  return {
    caller: options.caller ?? ALICE,
    client: null,
    era: "legacy",
    streaming: true,
    requestTimeoutMs: null,
    cwd: options.cwd ?? null,
    progress: options.progress ?? null,
    sliceMaxMs: tool.mayHold(args) ? sliceMaxMs : 0,
    resumed: false,
    signal: options.signal ?? new AbortController().signal,
    endReason: () => null,
  };
}

function settingsOf({ limits, settings }: TestEngineOptions): EngineSettings {
  const agent: AgentSettings = {
    driver: "fake",
    command: ["fake"],
    promptBy: "stdin",
    onLoss: "resume",
    model: null,
    trusted: true,
    requireEvidence: "assumed",
    env: {},
    levels: ALL_LEVELS,
    writes: true,
  };
  return {
    daemonId: "d1",
    limits: {
      concurrentChildren: 4,
      queueMax: 1_000,
      depthMax: 1,
      tasksPerTreeMax: 50,
      waitsMax: 10_000,
      delegationsPerMinute: 60,
      ...limits,
    },
    retry: {
      patienceMs: 4 * 3_600_000,
      backoffMaxMs: 60_000,
      unknownAttemptsMax: 2,
      lossesMax: 5,
      pauseMaxMs: 6 * 3_600_000,
    },
    stallAfterMs: 300_000,
    questionDeadlineMs: 24 * 3_600_000,
    maxActiveMs: 24 * 3_600_000,
    permissionsMax: "accept_edits",
    ...PLAIN_SETTINGS,
    guardLeaseMs: 30_000,
    agents: new Map([
      ["codex", agent],
      ["strict", { ...agent, requireEvidence: "explicit" }],
      ["fragile", { ...agent, onLoss: "fail" }],
      ["plain", { ...agent, driver: "command", onLoss: "fail" }],
    ]),
    defaultAgent: "codex",
    scratchRoot: "/nowhere",
    ...settings,
  };
}

/** Every absolute path below `/shop` is a directory of its own. */
function createPlainWorkspace(): Workspace {
  return {
    ...NO_GIT,
    roots: ["/shop"],
    resolve: async (wanted) => {
      const path = wanted ?? "/shop";
      if (path === "/shop" || path.startsWith("/shop/")) return { kind: "resolved", path };
      return { kind: "refused", code: "workspace_not_allowed", reason: "outside_roots" };
    },
  };
}

export type FakeChildren = Children & {
  readonly stops: readonly StopTarget[];
  readonly released: readonly string[];
  /** From now on stops (of this task's children, if one is named) find these left over. */
  leave(survivors: readonly Survivor[], taskId?: string): void;
  /** Holds stops (of this task's children, if one is named) back until the returned function, or `freeStops`, is called. */
  holdStops(taskId?: string): () => void;
  freeStops(): void;
};

/** Children without processes: a stop is proven unless told otherwise. */
export function createFakeChildren(): FakeChildren {
  const stops: StopTarget[] = [];
  const released: string[] = [];
  let left: readonly Survivor[] = [];
  let leftOf = "";
  let gate: PromiseWithResolvers<void> | null = null;
  let heldOf = "";
  const freeStops = (): void => {
    gate?.resolve();
    gate = null;
  };
  return {
    stops,
    released,
    spawn: async () => ({ kind: "failed", code: "ENOENT", message: "there are no programs here" }),
    async stop(target): Promise<StopReport> {
      stops.push(target);
      if (target.mark.includes(heldOf)) await gate?.promise;
      if (left.length > 0 && target.mark.includes(leftOf)) return { kind: "survivors", survivors: left };
      return { kind: "proven", stop: { proof: "marker+tree", survivors: [], kept: [], by: null } };
    },
    heartbeat: () => undefined,
    release: async (mode) => void released.push(mode),
    leave(survivors, taskId = "") {
      left = survivors;
      leftOf = taskId;
    },
    holdStops(taskId = "") {
      heldOf = taskId;
      gate = Promise.withResolvers<void>();
      return freeStops;
    },
    freeStops,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

type ReadName = "task" | "tasks" | "text" | "pending" | "receipt";

export type StoreTrouble = {
  /** From now on writes fail; reads too if `reads`. */
  begin(code?: StorageCode, what?: { readonly reads: boolean }): void;
  end(): void;
  /** Makes the next `count` calls of this read fail. */
  failReads(name: ReadName, count: number): void;
  /** Holds the answer of a call of this read back, as it was read, the next one or one after `skip` others: `arrived` resolves when it was. */
  holdAnswer(name: ReadName, skip?: number): { readonly arrived: Promise<void>; release(): void };
  check(what: string): void;
  /** Waits where a test holds the answer of this read. */
  answered(what: string): Promise<void>;
  readonly healthy: boolean;
  wrote(): void;
};

function createStoreTrouble(): StoreTrouble {
  let writes: StorageCode | null = null;
  let reads: StorageCode | null = null;
  let healthy = true;
  const failing = new Map<string, number>();
  const held = new Map<string, { skip: number; readonly arrived: () => void; readonly released: Promise<void> }>();
  return {
    begin(code = "disk_full", what = { reads: false }) {
      writes = code;
      reads = what.reads ? code : null;
    },
    end() {
      writes = null;
      reads = null;
      failing.clear();
    },
    failReads: (name, count) => void failing.set(name, count),
    holdAnswer(name, skip = 0) {
      const arrival = Promise.withResolvers<void>();
      const release = Promise.withResolvers<void>();
      held.set(name, { skip, arrived: arrival.resolve, released: release.promise });
      return { arrived: arrival.promise, release: release.resolve };
    },
    async answered(what) {
      const hold = held.get(what);
      if (hold === undefined || hold.skip-- > 0) return;
      held.delete(what);
      hold.arrived();
      await hold.released;
    },
    check(what) {
      const left = failing.get(what) ?? 0;
      if (left > 0) failing.set(what, left - 1);
      const code = what === "write" ? writes : (reads ?? (left > 0 ? "io_error" : null));
      if (code === null) return;
      if (what === "write") healthy = false;
      throw storageTrouble(code, "armed by the test");
    },
    get healthy() {
      return healthy;
    },
    wrote() {
      healthy = true;
    },
  };
}

/** The store with its troubles: nothing is written by a work that fails. */
function troubled(store: MemoryStore, trouble: StoreTrouble): Store {
  const read = <Args extends readonly unknown[], Result>(name: string, query: (...args: Args) => Promise<Result>) => {
    return async (...args: Args): Promise<Result> => {
      trouble.check(name);
      const result = await query(...args);
      await trouble.answered(name);
      return result;
    };
  };
  return {
    async write(work) {
      trouble.check("write");
      const result = await store.write(work);
      trouble.wrote();
      return result;
    },
    healthy: () => trouble.healthy && store.healthy(),
    task: read("task", store.task),
    tasks: read("tasks", store.tasks),
    taskIdOfThread: read("taskIdOfThread", store.taskIdOfThread),
    receipt: read("receipt", store.receipt),
    list: read("list", store.list),
    unfinished: read("unfinished", store.unfinished),
    unfinishedBelow: read("unfinishedBelow", store.unfinishedBelow),
    settledBefore: read("settledBefore", store.settledBefore),
    transcriptsSettledBefore: read("transcriptsSettledBefore", store.transcriptsSettledBefore),
    pending: read("pending", store.pending),
    text: read("text", store.text),
    events: read("events", store.events),
    milestones: read("milestones", store.milestones),
    transcript: read("transcript", store.transcript),
    dueNotices: read("dueNotices", store.dueNotices),
    nextNoticeAtMs: read("nextNoticeAtMs", store.nextNoticeAtMs),
    counts: read("counts", store.counts),
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}
