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
  optionsCharactersMax: 64 * 1024,
  /** One wait names at most this many tasks: an answer about more would not fit any client. */
  waitTasksMax: 50,
  listLimitMax: 100,
  /** Claude Code replaces results past 45,000 characters by a file, Codex cuts near 12,000. */
  answerCharactersMax: 10_000,
  /** Child text in one answer, shared among its tasks. */
  childTextCharactersMax: 6_000,
  /** Kept of a final text; the middle of a longer one is left out, marked. */
  resultBytesMax: 8 * 1024 * 1024,
  /** Kept of a child's conversation; the middle of a longer one is dropped, and the gap is marked. */
  transcriptBytesMax: 64 * 1024 * 1024,
  /** One piece of it; a tool that prints more is cut in the middle. */
  transcriptPieceCharactersMax: 256 * 1024,
  /** Characters of one page of `thread_read`, and what is shown unless asked otherwise. */
  pageCharactersMin: 200,
  pageCharactersMax: 8_000,
  /** What a page of a log looks through at most; a longer one is looked through by further calls. */
  findCharactersAtOnce: 2 * 1024 * 1024,
  findCharactersMax: 200,
  /** A question's parts; nobody reads more. */
  questionOptionsMax: 24,
  questionFieldsMax: 12,
  questionActionCharactersMax: 2_000,
  questionPromptCharactersMax: 20_000,
  /** A written answer to a question. */
  answerTextBytesMax: 64 * 1024,
  /** A notice that cannot be delivered is given up after this time. */
  noticeGiveUpMs: 3 * 24 * 60 * 60_000,
  noticeBackoffFirstMs: 5_000,
  noticeBackoffMaxMs: 30 * 60_000,
  /** How often retention looks for what is past its time, and how much it removes at a time. */
  retentionEveryMs: 60 * 60_000,
  retentionBatch: 50,
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
