/**
 * What becomes of an agent's permission request: allowed by the task's level, or a question to whoever may answer.
 *
 * Invariant: nothing is ever refused here. What the level does not allow is asked, and a silent end is `cancelled` (row 16).
 * Invariant: below `full` only a single time is allowed by itself; `allow_always` would reach beyond the request.
 * Invariant: an edit counts as inside the working directory only by its real path, links followed, and only if the agent says
 * where it is.
 */

import { readlink, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { headOf } from "../../core/excerpt.ts";
import type { Permission } from "../../core/task.ts";
import type { DriverQuestion } from "../../ports/driver.ts";
import { type Fields, fieldsIn, listIn, textIn } from "../fields.ts";
import type { ToolCallState } from "./acp-tools.ts";

export type PermissionOption = { readonly optionId: string; readonly name: string; readonly kind: string };

const OPTIONS_MAX = 20;
const PROMPT_CHARACTERS_MAX = 8_000;
const ACTION_CHARACTERS_MAX = 2_000;
const LINKS_MAX = 40;
const READING_KINDS = new Set(["read", "search", "think"]);
const EDITING_KINDS = new Set(["edit", "delete", "move"]);

export function optionsIn(request: Fields): readonly PermissionOption[] {
  return listIn(request["options"])
    .map(fieldsIn)
    .flatMap((option) => {
      const optionId = textIn(option["optionId"]);
      if (optionId === null) return [];
      return [{ optionId, name: textIn(option["name"]) ?? optionId, kind: textIn(option["kind"]) ?? "" }];
    })
    .slice(0, OPTIONS_MAX);
}

/** The option that the level picks by itself, or null: it has to be asked. */
export async function allowedBy(
  level: Permission,
  call: ToolCallState,
  options: readonly PermissionOption[],
  cwd: string,
): Promise<string | null> {
  const once = options.find(({ kind }) => kind === "allow_once")?.optionId ?? null;
  if (level === "full") return once ?? options.find(({ kind }) => kind === "allow_always")?.optionId ?? null;
  if (once === null) return null;
  if (READING_KINDS.has(call.kind)) return once;
  return level === "accept_edits" && EDITING_KINDS.has(call.kind) && (await allInside(call.paths, cwd)) ? once : null;
}

export function questionOf(call: ToolCallState, options: readonly PermissionOption[]): DriverQuestion {
  const paths = call.paths.join(", ");
  const cut = (text: string): string => headOf(text, ACTION_CHARACTERS_MAX);
  return {
    ask: "permission",
    optionIds: options.map(({ optionId }) => optionId),
    labels: Object.fromEntries(options.map(({ optionId, name }) => [optionId, name])),
    action: {
      tool: cut(call.title === null ? call.kind : `${call.kind}: ${call.title}`),
      ...(call.command === null ? {} : { command: cut(call.command) }),
      ...(paths === "" ? {} : { paths: cut(paths) }),
    },
    prompt: headOf(
      [call.title ?? call.kind, call.content].filter((text) => text !== "").join("\n"),
      PROMPT_CHARACTERS_MAX,
    ),
  };
}

async function allInside(paths: readonly string[], cwd: string): Promise<boolean> {
  if (paths.length === 0) return false;
  const root = await realPathOf(cwd);
  const real = await Promise.all(paths.map((path) => realPathOf(resolve(cwd, path))));
  return real.every((path) => path === root || path.startsWith(root.endsWith(sep) ? root : root + sep));
}

/** Of a file that is not there yet: by the nearest folder that is, and by where a link without a target points. */
async function realPathOf(path: string, links = 0): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    const target = await readlink(path).catch(() => null);
    if (links > LINKS_MAX) return sep;
    if (target !== null) return realPathOf(resolve(dirname(path), target), links + 1);
    const parent = dirname(path);
    return parent === path ? path : join(await realPathOf(parent, links), basename(path));
  }
}
