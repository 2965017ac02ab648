/**
 * The structured log: one JSON object a line, or one short line a person can read on a terminal.
 *
 * Invariant: a value that is known to be secret, and the value of a field whose name says so, never leaves in clear.
 * Invariant: a reader that stops reading costs at most `BACKLOG_BYTES_MAX` of memory and never a turn of the event loop;
 * what does not fit is counted and the count is logged (P15).
 * Absent on purpose: files and rotation. Whoever starts the daemon owns its standard error.
 */

import { pino, stdTimeFunctions } from "pino";
import type { Log, LogFields } from "../ports/log.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Where lines go. Standard error of Node fits: on a pipe it buffers instead of blocking, which a bare descriptor does not. */
export type LogStream = { write(text: string): unknown; readonly writableLength: number };

export type PinoLogOptions = {
  readonly level: LogLevel;
  readonly stream: LogStream;
  /** True for a terminal: short lines instead of JSON. */
  readonly terminal: boolean;
};

export type PinoLog = Log & {
  /** From now on `value` is masked wherever it appears. Values under 8 characters are ignored: they would mask plain words. */
  addSecret(value: string): void;
};

const BACKLOG_BYTES_MAX = 1024 * 1024;
const SECRET_CHARACTERS_MIN = 8;
const VALUE_CHARACTERS_MAX = 4_000;
const MASK = "[secret]";
/** Field names that never hold anything to be read. */
const SECRET_FIELDS = ["authorization", "cookie", "token", "secret", "password", "apiKey", "sessionKey", "prompt"];

export function createPinoLog(options: PinoLogOptions): PinoLog {
  const masker = createMasker();
  const out = createBoundedOutput(options.stream, options.terminal ? terminalLine : (line) => line);
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      messageKey: "event",
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS, censor: MASK },
    },
    out,
  );
  const write = (level: "debug" | "info" | "warn" | "error", event: string, fields: LogFields | undefined): void => {
    if (logger.isLevelEnabled(level)) logger[level](masker.fields(fields ?? {}), masker.text(event));
  };
  return {
    debug: (event, fields) => write("debug", event, fields),
    info: (event, fields) => write("info", event, fields),
    warn: (event, fields) => write("warn", event, fields),
    error: (event, fields) => write("error", event, fields),
    addSecret: masker.add,
  };
}

type Masker = {
  add(value: string): void;
  text(text: string): string;
  fields(fields: LogFields): Record<string, string | number | boolean | null>;
};

function createMasker(): Masker {
  const secrets = new Set<string>();
  const text = (original: string): string => {
    let masked = original;
    for (const secret of secrets) masked = masked.replaceAll(secret, MASK);
    return masked.length > VALUE_CHARACTERS_MAX ? `${masked.slice(0, VALUE_CHARACTERS_MAX)}…` : masked;
  };
  return {
    add(value) {
      if (value.length >= SECRET_CHARACTERS_MIN) secrets.add(value);
    },
    text,
    fields(fields) {
      const masked: Record<string, string | number | boolean | null> = {};
      for (const [name, value] of Object.entries(fields)) {
        if (value !== undefined) masked[name] = typeof value === "string" ? text(value) : value;
      }
      return masked;
    },
  };
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
