/** Builds the program before tests that start it as a user would; costs nothing where it is already built. */

import { execFileSync } from "node:child_process";
import path from "node:path";

export function setup(): void {
  execFileSync(process.execPath, [path.join(import.meta.dirname, "../../scripts/build.ts")], { stdio: "inherit" });
}
