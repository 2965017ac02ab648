/**
 * A command as a process of its own, in a home of its own.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { ROOT, type Scratch } from "../tooling/scratch.ts";

const RUN = path.join(ROOT, "src/cli/run.ts");

export type Process = Disposable & {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  ended(): Promise<number | null>;
};

/** Starts the command in a home of its own. Disposing kills what still runs. */
export function command(folder: Scratch, args: readonly string[], env: Readonly<Record<string, string>> = {}): Process {
  const own = { PATH: process.env["PATH"] ?? "", HOME: folder.dir, ...env };
  const child = spawn(process.execPath, ["--no-warnings", RUN, ...args], {
    cwd: folder.dir,
    env: own,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (output.stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output.stderr += chunk.toString()));
  const exit = once(child, "close");
  return {
    child,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    ended: async () => {
      await exit;
      return child.exitCode;
    },
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}
