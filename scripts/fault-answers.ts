/**
 * What a caller gets when a fault of the manifest happens: a result, the handle of its task, or an explicit next step.
 *
 * Invariant: every fault of `test/promises.ts` stands in exactly one of the two records; `failure-catalogue.ts` sees to it.
 */

/** Faults that this version answers; each is cited by a test. */
export const ANSWERED: Readonly<Record<string, string>> = {
  F1: "the handle was in the first answer; a wait is held for less than the client's limit, and losing one changes nothing",
  F2: "the result again, however often it is read; only the caller's own words end its announcement",
  F3: "the first task with its present state, `created: replayed`",
  F4: "the same; the receipt is on disk before the first answer leaves",
  F5: "the same; receipts are looked up before anything else is judged",
  F6: "`idempotency_conflict` with the first task under `related` and the names of the fields that differ",
  F7: "one task; both calls get its handle",
  F8: "`missing_client_request_id` with a ready key to send",
  F10: "the handle of the task in every answer after its commit, also beside an error",
  F11: "`working`, phase `healing`, with class, next try and until when; the child goes on in its own conversation",
  F12: "`working`, phase `paused`, with the time of the next try; past the allowed pause `failed` (`quota`), continuable",
  F13: "`failed` with its class and `next: fix`; the same task can be continued once it is put right",
  F14: "the same ids, the next run and settlement; whoever did not know of it is told instead of sending twice",
  F15: "`failed` (`no_result`), continuable, with the conversation to read",
  F16: "`input_required` with the question, who may answer and until when; silence is never taken for a refusal",
  F17: "`working`, `waitEnded: slice`, the handle and the next wait",
  F18: "phase `recovering` under the same ids: resumed in its own session, run again (`onLoss: rerun`), or `failed` (`lost`)",
  F19: "the same: what is left of the child is stopped with proof before the next attempt starts; there are never two",
  F20: "the wait again, as it was: nothing of it is kept on the server",
  F21: "the result with any later answer (`pendingCompletions`) and by `task_list`",
  F22: "the task goes on; its result is kept and listed for whoever comes with the same name",
  F23: "success with the final state",
  F24: "everything below the task is cancelled in one transaction; what cannot be ended is named and holds up the word `cancelled`",
  F25: "whichever was first; a result that came late is kept as partial",
  F26: "`workspace_busy` with the holder, or a place in the queue (`onBusy: queue`)",
  F27: "`workspace_failed` says what is wrong with the directory or what is not offered; nothing is created",
  F28: "`unknown_task` with the caller's newest tasks and `next: task_list`",
  F29: "`task_list`, ended tasks included; `task_status` by the key that was sent",
  F30: "the handle at once; a child is started after the answer",
  F31: "`stalled` with the time of silence; waits end with it",
  F32: "`queued` with its position; past the queue's limit `capacity_full`, nothing created",
  F33: "what fits of it, `truncated` with its size; all of it by `thread_read`",
  F34: "a code, `created: none` and the next step; the same key may be sent again",
  F35: "nothing: limits on running time do not count the sleep, broken streams heal, nothing counts as lost",
  F37: "phase `stopping`, after 30 s news with the survivors' names; a person may abandon them",
  F38: "the guard stops the child; the next start goes on with the same task, never with a second child beside the first",
};

/** Faults that this version does not answer as the contract says, and what happens instead. */
export const NOT_ANSWERED: Readonly<Record<string, string>> = {
  F9: "a second task; a writer is refused by the claim of the first (`workspace_busy`), and other work in the directory is named (`otherLive`)",
  F36: "it is not noticed; the next message goes into the conversation as the agent finds it",
};
