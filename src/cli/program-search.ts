/**
 * Where a program would be found when it is started by name.
 *
 * Absent on purpose: Windows, where names have endings.
 */

import { accessSync, constants, statSync } from "node:fs";
import path from "node:path";

/** The file that is started for `name`; null if there is none that can be. A name with a slash is not searched for. */
export function findProgram(name: string, searchPath: string): string | null {
  if (name.includes("/")) return isProgram(name) ? name : null;
  for (const folder of searchPath.split(path.delimiter)) {
    const file = path.join(folder, name);
    if (folder !== "" && isProgram(file)) return file;
  }
  return null;
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
