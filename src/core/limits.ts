/**
 * Every limit that is not an operator's setting, with its reason (P15). Operators' settings live in `config/schema.ts`.
 *
 * Invariant: reaching a limit is a named answer, never a hang, a crash or a silent cut.
 */

export const LIMITS = {
  /** A prompt that no model takes in one turn helps nobody; also keeps a row well under SQLite's page cache. */
  taskBytesMax: 512 * 1024,
  titleCharactersMax: 120,
  keyCharactersMin: 8,
  keyCharactersMax: 256,
  resultSchemaBytesMax: 16 * 1024,
  labelsMax: 16,
  optionsMax: 32,
  /** One wait names at most this many tasks: an answer about more would not fit any client. */
  waitTasksMax: 50,
  listLimitMax: 100,
  /** Claude Code replaces results past 45,000 characters by a file, Codex cuts near 12,000. */
  answerCharactersMax: 10_000,
  /** Child text in one answer, shared among its tasks. */
  childTextCharactersMax: 6_000,
  /** Kept of a final text; the middle of a longer one is left out, marked. */
  resultBytesMax: 8 * 1024 * 1024,
  /** Announcements in `pendingCompletions`; the rest is a count. */
  pendingShownMax: 3,
  pendingListedMax: 5,
  /** Messages queued to a running task: more is a conversation, which belongs into a new task. */
  queuedMessagesMax: 20,
  /** After this a finished, acknowledged key that comes again is more likely new work than a repeat. */
  staleReplayMs: 60 * 60_000,
  /** `stopping` that lasts longer is told to whoever waits, with the survivors' names. */
  survivorsAfterMs: 30_000,
  /** How long the daemon waits before it looks again at processes that would not end. */
  reapAgainMs: 5_000,
  /** Waits are never held longer than this, whatever the client asks. */
  sliceMaxMs: 240_000,
  /** First back-off; doubled per fault up to `backoffMaxMs`. */
  backoffFirstMs: 1_000,
  /** A provider that asks to wait longer than this has a usage limit, not a hiccup. */
  quotaRetryAfterMs: 10 * 60_000,
  /** An unfinished wait of the supervisor re-reads the store at least this often: wake-ups are hints. */
  supervisorPollMs: 5_000,
} as const;
