/**
 * A page of a thread as `thread_read` answers it, and how its parts are shown.
 *
 * Invariant: what a child wrote is indented on a terminal, so that none of it can look like a heading of ours (P17).
 */

import { z } from "zod";
import { sanitise } from "../core/sanitise.ts";
import type { Answer } from "./answer.ts";
import type { Command } from "./command.ts";
import { colorsFor, line, printJson, printRows } from "./print.ts";

export const VIEWS = ["messages", "events", "result", "changes"] as const;
export type View = (typeof VIEWS)[number];

const partSchema = z.looseObject({
  who: z.string().optional(),
  at: z.number().optional(),
  /** ISO 8601. */
  time: z.string().optional(),
  text: z.string(),
});
export type Part = z.output<typeof partSchema>;

const pageSchema = z.looseObject({ parts: z.array(partSchema) });

/** What a page holds, in order; nothing if it is empty. */
export function partsOf(answer: Answer): readonly Part[] {
  const page = pageSchema.safeParse(answer.fromChild);
  return page.success ? page.data.parts : [];
}

export type Asked = { readonly view?: View; readonly find?: string };

/** True for a view that is one text, where a program reads it: it gets that text as it is. */
export function isPrintedAsText({ io, options }: Command, { view, find }: Asked): boolean {
  const isText = (view === "result" || view === "changes") && find === undefined;
  return isText && options.json !== true && !io.stdout.isTTY;
}

/** Shows parts: to a person under a heading each, to a program a line each, and a view that is one text as that text. */
export function printParts(command: Command, parts: readonly Part[], asked: Asked): void {
  const { io, options } = command;
  const { stdout } = io;
  if (options.json === true) {
    for (const part of parts) printJson(stdout, part);
  } else if (isPrintedAsText(command, asked)) {
    for (const part of parts) stdout.write(part.text);
  } else if (!stdout.isTTY) {
    printRows(
      stdout,
      colorsFor(stdout, io.env, true),
      COLUMNS,
      parts.map((part) => [part.at, part.time, part.who, part.text]),
    );
  } else {
    const colors = colorsFor(stdout, io.env, options.color === false);
    for (const part of parts) {
      const heading = [part.time, part.who, part.at].filter((word) => word !== undefined).join(" ");
      stdout.write(`${colors.dim(`--- ${line(heading)}`)}\n`);
      stdout.write(`${sanitise(part.text).trimEnd().replace(/^/gm, "  ")}\n`);
    }
  }
}

const COLUMNS = [{ title: "AT" }, { title: "TIME" }, { title: "WHO" }, { title: "TEXT", wide: true }] as const;
