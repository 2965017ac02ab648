/**
 * A scratch folder with given files, and one way to run a script of the project in it, for tests of the tooling.
 */

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

export const ROOT = path.resolve(import.meta.dirname, "..", "..");

export type Scratch = Disposable & {
  readonly dir: string;
  write(files: Readonly<Record<string, string>>): void;
};

/** `files` maps paths inside the folder to contents. Disposing removes the folder. */
export function scratch(files: Readonly<Record<string, string>> = {}): Scratch {
  const dir = mkdtempSync(path.join(tmpdir(), "delegate-mcp-tooling-"));
  const write = (more: Readonly<Record<string, string>>): void => {
    for (const [name, text] of Object.entries(more)) {
      mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
      writeFileSync(path.join(dir, name), text);
    }
  };
  write(files);
  return { dir, write, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}

export type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

/** Runs Node (the one that runs the tests) with `args` in `cwd`; at most 60 s and 4 MiB of output. */
export function runNode(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { cwd, env: { ...process.env, ...env }, timeout: 60_000, maxBuffer: 4 * 1024 * 1024 };
    const child = execFile(process.execPath, [...args], options, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode, stdout, stderr });
    });
  });
}
