/**
 * Entry of the program. `bin/delegate-mcp.js` imports it, which runs the command line.
 *
 * Invariant: on a Node that is too old this file still loads and says so in one line; everything newer comes after that.
 */

const NODE_MIN = [22, 19] as const;

if (isTooOld(process.versions.node)) {
  process.stderr.write(
    `delegate-mcp needs Node ${NODE_MIN.join(".")} or newer; this is ${process.versions.node} (${process.execPath}).\n`,
  );
  process.exit(2);
}

hideExperimentalWarnings();
// A reader that has gone (`list | head`) is no error of ours.
process.stdout.on("error", () => undefined);
process.stderr.on("error", () => undefined);

const [{ runCommandLine }, { processIo }, { readVersion }] = await Promise.all([
  import("./program.ts"),
  import("./io.ts"),
  import("./version.ts"),
]);
const loadDaemon = async () => (await import("../main.ts")).startDaemon;
const exitCode = await runCommandLine(process.argv.slice(2), { io: processIo(), version: readVersion(), loadDaemon });
await written(process.stdout, 60_000);
await written(process.stderr, 1_000);
process.exit(exitCode);

function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < NODE_MIN[0] || (major === NODE_MIN[0] && minor < NODE_MIN[1]);
}

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
