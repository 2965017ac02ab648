/**
 * The structured log: one JSON object a line, or one short line a person can read on a terminal.
 *
 * Invariant: a value that is known to be secret, and the value of a field whose name says so, at whatever depth, never leaves
 * in clear (X4).
 * Invariant: a reader that stops reading costs at most `BACKLOG_BYTES_MAX` of memory and never a turn of the event loop;
 * what does not fit is counted and the count is logged (P15).
 * Absent on purpose: files and rotation (whoever starts the daemon owns its standard error), and knowing secrets; see
 * `secrets`.
 */

import { pino, stdTimeFunctions } from "pino";
import type { LogEvent } from "../core/log-events.ts";
import type { Log, LogFields } from "../ports/log.ts";
import { MASK } from "./secrets.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Where lines go. Standard error of Node fits: on a pipe it buffers instead of blocking, which a bare descriptor does not. */
export type LogStream = { write(text: string): unknown; readonly writableLength: number };

export type PinoLogOptions = {
  readonly level: LogLevel;
  readonly stream: LogStream;
  /** True for a terminal: short lines instead of JSON. */
  readonly terminal: boolean;
  /** Masks the secrets in a text; asked for every text that is written. */
  readonly mask: (text: string) => string;
};

const BACKLOG_BYTES_MAX = 1024 * 1024;
const VALUE_CHARACTERS_MAX = 4_000;
const DEPTH_MAX = 4;
/** Fields by their names without case and separators: `Set-Cookie`, `api_key`, `childToken`; a number of `tokens` is none. */
const SECRET_FIELD =
  /(?:authorization|cookies?|token|secrets?|passwords?|apikeys?|sessionkey|privatekey|credentials?|^prompt)$/;
/** What stands in a header is nobody's to read, whoever's it is. */
const CREDENTIALS = /\b(Bearer|Basic)\s+[\w.~+/=-]{8,}/gi;

export function createPinoLog(options: PinoLogOptions): Log {
  const clean = createCleaner(options.mask);
  const out = createBoundedOutput(options.stream, options.terminal ? terminalLine : (line) => line);
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      messageKey: "event",
      formatters: { level: (label) => ({ level: label }) },
    },
    out,
  );
  const at = (level: Exclude<LogLevel, "silent">) => (event: LogEvent, fields?: LogFields) => {
    if (logger.isLevelEnabled(level)) logger[level](clean(fields ?? {}, 0), event);
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Fields as they may be written. Types keep them flat; what comes by a caught error's way may be nested all the same. */
function createCleaner(mask: (text: string) => string) {
  const text = (original: string): string => {
    const masked = mask(original).replace(CREDENTIALS, `$1 ${MASK}`);
    return masked.length > VALUE_CHARACTERS_MAX ? `${masked.slice(0, VALUE_CHARACTERS_MAX)}…` : masked;
  };
  const value = (original: unknown, depth: number): unknown => {
    if (typeof original === "string") return text(original);
    if (typeof original !== "object" || original === null) return original;
    if (depth === DEPTH_MAX) return "…";
    return Array.isArray(original) ? original.map((item) => value(item, depth + 1)) : fields(original, depth + 1);
  };
  function fields(original: object, depth: number): Record<string, unknown> {
    const cleaned: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(original)) {
      if (field === undefined) continue;
      const isSecret = field !== null && SECRET_FIELD.test(name.replace(/[-_.\s]/g, "").toLowerCase());
      cleaned[text(name)] = isSecret ? MASK : value(field, depth);
    }
    return cleaned;
  }
  return fields;
}

/** Writes while the reader keeps up, drops and counts while it does not. */
function createBoundedOutput(stream: LogStream, format: (line: string) => string): { write(line: string): void } {
  let dropped = 0;
  return {
    write(line) {
      if (stream.writableLength > BACKLOG_BYTES_MAX) {
        dropped++;
        return;
      }
      if (dropped > 0) {
        stream.write(
          format(
            `${JSON.stringify({ level: "warn", time: timeOf(line), event: "log_lines_dropped", count: dropped })}\n`,
          ),
        );
        dropped = 0;
      }
      stream.write(format(line));
    },
  };
}

function timeOf(line: string): unknown {
  return parseLine(line)["time"];
}

/** `10:02:03 warn  attempt_failed  taskId=dt_… class=transport` */
function terminalLine(line: string): string {
  const { level, time, event, ...fields } = parseLine(line);
  const clock = String(time).slice(11, 19);
  const pairs = Object.entries(fields).map(([name, value]) => `${name}=${terminalValue(value)}`);
  return `${[clock, String(level).padEnd(5), terminalValue(event), ...pairs].join(" ")}\n`;
}

/** Plain words as they are; anything else quoted, with everything that could move a terminal's cursor spelt out. */
function terminalValue(value: unknown): string {
  if (typeof value !== "string") return String(value);
  if (/^[\w./:@+,;=~-]+$/.test(value)) return value;
  return JSON.stringify(value).replace(/[\p{C}\u2028\u2029]/gu, (character) => {
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

/** Our own line, so an object for certain. */
function parseLine(line: string): Record<string, unknown> {
  const parsed: unknown = JSON.parse(line);
  return typeof parsed === "object" && parsed !== null ? { ...parsed } : {};
}
