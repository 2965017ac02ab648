/**
 * A log that keeps what it was told, so that a test can look for an event or for a secret that must not be there.
 */

import type { LogEvent } from "../../src/core/log-events.ts";
import type { Log, LogFields } from "../../src/ports/log.ts";

export type LogEntry = { readonly level: keyof Log; readonly event: LogEvent; readonly fields: LogFields };

export type QuietLog = Log & { readonly entries: readonly LogEntry[] };

export function createQuietLog(): QuietLog {
  const entries: LogEntry[] = [];
  const at = (level: keyof Log) => (event: LogEvent, fields?: LogFields) => {
    entries.push({ level, event, fields: fields ?? {} });
  };
  return { entries, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
