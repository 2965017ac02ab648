/**
 * Which of an agent's modes fits a permission level. Without a profile of the agent only its ids can tell.
 *
 * Invariant: a mode is chosen only if its id is known to allow no more than the level; a narrower one is taken where the
 * level has none of its own, because what it asks is answered by the level.
 */

import { PERMISSIONS, type Permission } from "../../core/task.ts";

const MODES: Readonly<Record<Permission, readonly string[]>> = {
  plan: ["plan", "readonly"],
  ask: ["default", "ask", "manual", "normal"],
  accept_edits: ["acceptedits", "autoedit", "autoedits"],
  full: ["bypasspermissions", "fullaccess", "dangerfullaccess", "yolo", "bypass"],
};

/** In which order levels' modes are tried. A plan mode would keep a child of another level from its work. */
const CHAINS: Readonly<Record<Permission, readonly Permission[]>> = {
  plan: ["plan"],
  ask: ["ask"],
  accept_edits: ["accept_edits", "ask"],
  full: ["full", "accept_edits"],
};

/** The best of the agent's mode ids, or null. */
export function modeFor(level: Permission, ids: readonly string[]): string | null {
  const wanted = CHAINS[level].flatMap((rung) => MODES[rung]);
  for (const name of wanted) {
    const id = ids.find((candidate) => plain(candidate) === name);
    if (id !== undefined) return id;
  }
  return null;
}

/** True unless the mode is known to stay within the level. */
export function exceeds(level: Permission, id: string): boolean {
  if (level === "full") return false;
  const rung = PERMISSIONS.findIndex((candidate) => MODES[candidate].includes(plain(id)));
  return rung < 0 || rung > PERMISSIONS.indexOf(level);
}

/** Mode ids come as `acceptEdits`, `auto-edit`, or as an address that ends in `#plan`. */
function plain(id: string): string {
  return id
    .slice(id.lastIndexOf("#") + 1)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "");
}
