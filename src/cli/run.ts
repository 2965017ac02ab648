/**
 * Entry of the program: `bin/delegate-mcp.js` imports it once Node is known to be new enough, which runs the command line.
 *
 * Invariant: the process ends as soon as its command has: nothing that is still open keeps it.
 */

import { processIo } from "./io.ts";
import { runCommandLine } from "./program.ts";
import { readVersion } from "./version.ts";

const STDOUT_MAX_MS = 60_000;
/** Nobody may ever read standard error; what a person is told there is a few lines. */
const STDERR_MAX_MS = 1_000;

hideExperimentalWarnings();
// A reader that has gone (`list | head`) is no error of ours.
process.stdout.on("error", () => undefined);
process.stderr.on("error", () => undefined);

const loadDaemon = async () => (await import("../main.ts")).startDaemon;
const exitCode = await runCommandLine(process.argv.slice(2), { io: processIo(), version: readVersion(), loadDaemon });
await written(process.stdout, STDOUT_MAX_MS);
await written(process.stderr, STDERR_MAX_MS);
process.exit(exitCode);

/** The warnings about parts of Node that this program uses on purpose (its SQLite, replacing a process). */
function hideExperimentalWarnings(): void {
  const print = process.listeners("warning");
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    if (warning.name !== "ExperimentalWarning") for (const listener of print) listener(warning);
  });
}

/** Resolves when the reader has everything, or is too slow. */
function written(stream: NodeJS.WriteStream, maxMs: number): Promise<void> {
  return new Promise((resolve) => {
    if (stream.writableLength === 0 || stream.destroyed) return resolve();
    setTimeout(resolve, maxMs);
    stream.write("", () => resolve());
  });
}
