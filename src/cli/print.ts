/**
 * How the command line shows things: tables for a terminal, tab-separated full values for a program, JSON when asked.
 *
 * Invariant: colours only on a terminal that wants them (`NO_COLOR`, `TERM=dumb`, `--no-color`; `FORCE_COLOR` overrules).
 * Invariant: no text of a task can move the cursor, colour the terminal or add a column (P17).
 */

import Table from "cli-table3";
import pc from "picocolors";
import { sanitise } from "../core/sanitise.ts";
import type { Io, Output } from "./io.ts";

export type Colors = ReturnType<typeof pc.createColors>;

export function colorsFor(output: Output, env: Io["env"], noColor: boolean): Colors {
  const refused = noColor || (env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb";
  const forced = !["", "0", "false"].includes(env["FORCE_COLOR"] ?? "");
  return pc.createColors(forced && !noColor ? true : output.isTTY && !refused);
}

export type Column = { readonly title: string; readonly wide?: true };
export type Cell = string | number | null | undefined;

/** Rows under their titles on a terminal, cut to its width in the `wide` columns; else one line a row, nothing cut. */
export function printRows(
  output: Output,
  colors: Colors,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
): void {
  if (!output.isTTY) {
    for (const row of rows) output.write(`${row.map(field).join("\t")}\n`);
    return;
  }
  const shown = rows.map((row) => row.map(line));
  const widths = widthsOf(columns, shown, output.columns);
  const table = new Table({
    head: columns.map((column) => colors.dim(column.title)),
    colWidths: widths.map((width) => width + 2),
    chars: NO_BORDERS,
    style: { head: [], border: [], "padding-left": 0, "padding-right": 2 },
  });
  for (const row of shown) table.push(row.map((cell, index) => cut(cell, widths[index] ?? 0)));
  output.write(`${withoutTrailingBlanks(table.toString())}\n`);
}

/** `name  value` lines on a terminal, `name<TAB>value` else; absent values are left out. */
export function printPairs(output: Output, colors: Colors, pairs: readonly (readonly [string, Cell])[]): void {
  const present = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const width = Math.max(0, ...present.map(([name]) => name.length));
  for (const [name, value] of present) {
    if (output.isTTY) output.write(`${colors.dim(name.padEnd(width))}  ${line(value)}\n`);
    else output.write(`${name}\t${field(value)}\n`);
  }
}

export function printJson(output: Output, value: unknown): void {
  output.write(`${JSON.stringify(value)}\n`);
}

/** One line for a person. */
export function line(value: Cell): string {
  return sanitise(String(value ?? ""))
    .replace(/\s+/g, " ")
    .trim();
}

/** One field for a program: nothing lost, but no tab or line end of its own. */
function field(value: Cell): string {
  return sanitise(String(value ?? ""))
    .replaceAll("\\", "\\\\")
    .replaceAll("\t", "\\t")
    .replaceAll("\n", "\\n");
}

/** `3 min`, `2 h`, `5 d`. */
export function age(ms: number): string {
  const steps: readonly (readonly [number, string])[] = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "min"],
  ];
  const step = steps.find(([size]) => ms >= size);
  return step === undefined ? `${Math.max(0, Math.floor(ms / 1_000))} s` : `${Math.floor(ms / step[0])} ${step[1]}`;
}

const BETWEEN = 2;
const WIDE_MIN = 12;

/** Natural widths, with the wide columns narrowed evenly until a row fits the terminal. */
function widthsOf(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  terminal: number,
): readonly number[] {
  const natural = columns.map((column, index) =>
    Math.max(column.title.length, ...rows.map((row) => (row[index] ?? "").length)),
  );
  const over = natural.reduce((sum, width) => sum + width + BETWEEN, 0) - BETWEEN - terminal;
  if (over <= 0) return natural;
  const wide = columns.flatMap((column, index) => (column.wide ? [natural[index] ?? 0] : []));
  const limit = narrowest(wide, over);
  return natural.map((width, index) => (columns[index]?.wide ? Math.min(width, limit) : width));
}

/** The width that, as an upper limit of all `widths`, saves `over` characters. */
function narrowest(widths: readonly number[], over: number): number {
  let limit = Math.max(WIDE_MIN, ...widths);
  const saved = (): number => widths.reduce((sum, width) => sum + Math.max(0, width - limit), 0);
  while (limit > WIDE_MIN && saved() < over) limit--;
  return limit;
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

function withoutTrailingBlanks(text: string): string {
  return text.replace(/[ \t]+$/gm, "");
}

const NO_BORDERS = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "",
};
