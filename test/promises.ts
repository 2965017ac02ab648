/**
 * What the product promises, which reported troubles it must bear and which faults it must answer, by id. Tests cite
 * these ids in their titles or comments, as in `(P3, D2, F7)`.
 *
 * Invariant: an id is never reused for another sentence. `covered` means that at least one test cites the id;
 * `promises.test.ts` holds both sides to it.
 */

export type Manifested = { readonly says: string; readonly state: "covered" | "later" };

/** What callers may rely on. */
const PROMISES: Record<string, string> = {
  P1: "every answer has a next step, and the handle as soon as a task exists",
  P2: "a task's three ids are issued once and never change",
  P3: "one task per key, whatever happens to the call, the connection or the daemon",
  P4: "an id is on disk before any byte that contains it leaves",
  P5: "a task is called ended only after its processes are proven gone or a person gave up named survivors",
  P6: "a passing fault of the provider heals inside the same conversation and never ends the task",
  P7: "the end of a wait touches the wait, never the task",
  P8: "no call is held longer than its client bears, and a stream's first byte leaves within a second",
  P9: "a result can be read again and again; only the caller's own words clear its delivery",
  P10: "two children never write the same checkout unless asked to",
  P11: "the same work under another key joins the first child instead of starting a twin",
  P12: "a cancel reaches every descendant, and survivors are named",
  P13: "completed needs evidence; every other ending has a name of its own",
  P14: "within seconds of a start every task is resumed, recovering or settled",
  P15: "everything has a limit, and reaching it is a named answer",
  P16: "a foreign id answers exactly like an unknown one",
  P17: "what a child wrote is data: fenced, cleaned and never part of our own sentences",
  P18: "a child can do no more than its caller and never approves for itself",
};

/** Troubles that people reported of delegation and of long tool calls, each turned into a situation to pass. */
const SCENARIOS: Record<string, string> = {
  H1: "a client with a short request limit has the handle before the limit and the result under the same ids",
  H2: "a call cut in the middle and repeated finds its first task",
  H3: "slices stay below the smallest known limit of the client",
  H4: "a client's header timer never fires while a call is held",
  H5: "a slice ends before the idle limit of a streaming client although the child is silent",
  H6: "a wait that runs out is a normal answer, not an error",
  H7: "a result whose answer was lost in the socket can be read again",
  W1: "a first model call that is refused once does not fail the task",
  W2: "a child that ends with an error and no text is not completed",
  W3: "an error text is not a result where the status says failed",
  W4: "running out of turns is an ending of its own",
  W5: "a cancelled child with some text is cancelled, and the text is partial",
  W6: "a quota failure says when to come back and keeps the handle",
  W7: "a group of failures is counted as failures",
  W8: "a long silent tool call is not idleness",
  D1: "continuing a child and delegating the same work again does not give two writers",
  D2: "twenty equal calls give one task and nineteen replays, also across a restart",
  D3: "fifty concurrent calls with one key start one child",
  D4: "repeating the call of a finished task gives its result",
  D5: "a key with other content is a conflict, and a purged key starts nothing",
  D6: "slices without a result show progress, so that healthy work is not restarted",
  D7: "two daemons never share a data directory, and the store itself keeps a key unique",
  L1: "any number of waves of completions is delivered",
  L2: "completions that arrive during an answer are in the next one",
  L3: "a task ended by its own time limit is delivered like any other",
  L4: "a completion during a broken stream is told on return, with and without a resume id",
  L5: "any answer tells which other tasks have finished",
  L6: "five pending results come in one answer",
  R1: "tasks running at a kill are resumed or settled after the start, and a waiter learns it",
  R2: "a stored running task without a process blocks nothing after a start",
  R3: "a task without a process can be cancelled from a new session",
  R4: "a session id from before a restart is served",
  R5: "no session id, however wrong, makes an error of the server",
  R6: "a wait on a task that nothing runs answers at once",
  C1: "cancelling a task cancels what its child delegated",
  C2: "no grandchild outlives a cancel",
  C3: "a leaderless group member is stopped, and a reused pid is left alone",
  C4: "background servers of a finished task are reaped, or listed where they were to be kept",
  C5: "two hundred cancelled waits leave no trace and harm nobody",
  C6: "a cancel notice ends its own call and nothing else, even when it comes too late",
  C7: "a closed session leaves its tasks running and findable",
  G1: "a child that is alive without progress is called stalled and healed",
  G2: "a child that reads its input to the end starts",
  G3: "a wait on a queued task ends with its position and the reason",
  G4: "a child's question ends the wait and can be answered",
  G5: "a program that cannot be started is a failure within two seconds",
  G6: "a child that ends without a result is not completed",
  K1: "ten worktrees commit at once, and clean-up keeps uncommitted work",
  K2: "the second writer in a checkout is separated or made to wait",
  K3: "a branch that is checked out elsewhere is a clear refusal",
  K4: "two tasks in one repository do not move each other's branch",
  PE1: "a client without a progress token gets short slices and no progress",
  PE2: "an answer that comes after the client gave up is not delivered",
  PE3: "structured content keeps its schema in every error",
  PE4: "an idle stream outlives a proxy's idle limit",
  PE5: "the handshake never waits for an agent",
  S1: "a huge result is cut, said to be cut, and readable in pages",
  S2: "many big results share one budget",
  S3: "a character split over two chunks arrives whole",
  S4: "a long task with quotes and line ends reaches the child unchanged",
  X1: "a foreign host or origin is refused on every route",
  X2: "a child never sees the daemon's token",
  X3: "files hold their modes under any umask, and a readable token file is refused",
  X4: "no secret is in any log line at any level",
  M1: "every client gets its own answers and no others",
  M2: "equal request ids of two clients do not mix",
  M3: "clients come, crash and come again",
  E1: "children that delegate on and on meet a limit that is named",
  E2: "thousands of stale posts leave memory flat",
  E3: "a thousand openings that are never closed hold nothing",
  E4: "cancelled and crashed children free their slots",
  E5: "a hundred concurrent delegations lose no write",
  U1: "the tool texts say that a limit bounds the wait and not the child",
  U2: "every terminal answer says how to go on",
  U3: "hasty polling of a healthy task is met with a wait, not with a cancel",
};

/** Faults, and what the caller gets: a result, the handle, or an explicit next step. */
const FAULTS: Record<string, string> = {
  F1: "the client's limit passes during a wait",
  F2: "the answer is lost after the child finished",
  F3: "the same key again in the same session",
  F4: "the same key again after a reconnect or a restart",
  F5: "the same key again while the provider is down",
  F6: "the same key with other arguments",
  F7: "two identical calls at once",
  F8: "a call without a key",
  F9: "the same work under a new key",
  F10: "a failure after the task was committed",
  F11: "a passing provider error on the first run",
  F12: "a usage limit with a reset time",
  F13: "a definitive login, model or quota error",
  F14: "a failed child is continued by a person or an agent",
  F15: "the child ends empty",
  F16: "the child asks a question",
  F17: "the slice of the server ends",
  F18: "the daemon restarts and the child is gone",
  F19: "the daemon restarts and the child lives",
  F20: "the daemon restarts during a wait",
  F21: "the caller cannot be woken",
  F22: "the caller is gone",
  F23: "a cancel of a task that has ended or runs nothing",
  F24: "a cancel stops only a part of the tree",
  F25: "a cancel races a completion",
  F26: "two writers in one checkout",
  F27: "no worktree can be made",
  F28: "an unknown task id",
  F29: "the caller lost its ids",
  F30: "starting the child hangs",
  F31: "the child makes no progress",
  F32: "every slot is taken",
  F33: "the result is larger than the client accepts",
  F34: "a refusal before anything was started",
  F35: "the machine sleeps and wakes",
  F36: "a person goes on with the child elsewhere",
  F37: "a process cannot be stopped, or its host is gone",
  F38: "the daemon freezes or dies while a child writes",
};

/** Ids that this version answers for. */
export const CLAIMED: ReadonlySet<string> = new Set(
  [
    "P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P12 P13 P14 P15 P16 P17 P18 H1 H2 H3 H4 H5 H6 H7 W1 W2 W3 W4 W5 W6 W7 W8 D2 D3",
    "D4 D5 D6 D7 L1 L2 L3 L4 L5 L6 R1 R2 R3 R4 R5 R6 C1 C2 C3 C4 C5 C6 C7 G1 G2 G3 G4 G5 G6 PE1 PE2 PE3 PE4 PE5 S1",
    "S2 S3 S4 X1 X2 X3 X4 M1 M2 M3 E1 E2 E3 E4 E5 U1 U2 U3 F1 F2 F3 F4 F5 F6 F7 F8 F10 F11 F12 F13 F14 F15 F16 F17",
    "F18 F19 F20 F21 F22 F23 F24 F25 F28 F29 F30 F31 F32 F33 F34 F35 F37 F38",
  ].flatMap((line) => line.split(" ")),
);

/** Ids that are known and that this version does not answer for yet. */
export const OPEN: ReadonlySet<string> = new Set(
  [
    "P11 D1 K1 K2 K3 K4 F9 F26 F27 F36",
  ].flatMap((line) => line.split(" ")),
);

/** Ids that must be cited by a test: `CLAIMED` once the tests of this version stand. */
const COVERED: ReadonlySet<string> = CLAIMED;

/** id -> what it says and whether tests hold it. */
export const MANIFEST: ReadonlyMap<string, Manifested> = new Map(
  Object.entries({ ...PROMISES, ...SCENARIOS, ...FAULTS }).map(([id, says]) => [
    id,
    { says, state: COVERED.has(id) ? "covered" : "later" },
  ]),
);
