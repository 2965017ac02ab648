/**
 * Structured log. Events are names, not sentences; prompts and child output never appear at info or above.
 *
 * Invariant: the names are a closed table (`core/log-events`), so that no event is logged that the documentation lacks.
 */

import type { LogEvent } from "../core/log-events.ts";

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

export type Log = {
  debug(event: LogEvent, fields?: LogFields): void;
  info(event: LogEvent, fields?: LogFields): void;
  warn(event: LogEvent, fields?: LogFields): void;
  error(event: LogEvent, fields?: LogFields): void;
};
