/**
 * Every event that the log may name, and what it means to whoever reads it.
 *
 * Invariant: a name is never reused for another meaning; people's alerts hang on them.
 * Absent on purpose: levels. They stand where an event is logged.
 */

export const LOG_EVENTS = {
  attempt_not_recorded: "How an attempt ended could not be written down; the supervisor looks at the task again",
  call_failed: "A call was answered with an error of the server",
  child_stopped_for_shutdown: "A child was stopped because the daemon stops; `proven`: nothing of it is left",
  commit_failed: "A commit failed for want of the storage; delegations are refused until one succeeds",
  daemon_file_not_written: "`daemon.json` could not be written; the command line has to be told the address",
  data_dir_of_other_owner: "The data directory belongs to another user, so its mode was left as it is",
  drain_incomplete: "The stop went on although not everything could be ended in order",
  driver_failed: "A driver threw; the attempt counts as failed",
  export_failed: "An export could not be read to its end and was cut off",
  follower_failed: "Somebody who follows the tasks could not be told of a change",
  guard_ended: "The guard process ended; `complaint` is what it last said",
  guard_killed: "The guard did not answer and was killed; the next child starts another one",
  guard_not_started: "The guard process could not be started, so no child can be",
  guard_started: "The process that starts and stops children runs",
  log_lines_dropped: "Lines were left out because nobody read the log; `count` says how many",
  look_failed: "A task could not be looked at; the supervisor tries again",
  machine_slept: "The machine slept; limits on running time do not count that time",
  notice_given_up: "A notifier was not told of a settlement: refused by it, or not delivered for days",
  notice_not_delivered: "A notifier could not be told of a settlement; it is tried again",
  notices_failed: "The outbox could not be worked off; it is tried again",
  outcome_not_written: "The storage did not take an attempt's outcome; it is offered again",
  progress_not_sent: "A progress message found no connection any more",
  request_failed: "A request met an error of the server",
  request_refused: "A request was refused before it was authenticated; `reason` says why",
  retention_failed: "What is past its retention could not be removed; it is tried again within the hour",
  retention_pruned: "What was past its retention has been removed",
  rollback_failed: "A transaction could not be undone; the database does it when it is opened again",
  scratch_not_removed: "A child's scratch directory could not be removed",
  sleep_not_forgiven: "The time that the machine slept could not be taken off the limits",
  storage_recovered: "Writes succeed again",
  store_closed: "The database is closed",
  store_opened: "The database is open; `migrations` are the ones that were applied",
  supervisor_action_failed: "Something that a task needs could not be done; it is tried again",
  supervisor_poll_failed: "The supervisor's regular look failed; the next one comes anyhow",
  survivors: "Processes of a task could not be stopped; it waits until they are gone",
  tool_threw: "A tool threw; its caller got an error of the server",
} as const satisfies Readonly<Record<string, string>>;

export type LogEvent = keyof typeof LOG_EVENTS;
