/**
 * Runs the commands of each stage of the Dockerfile in plain folders, and then the image's program as the image starts,
 * asks and stops it.
 *
 * Invariant: every path that a command names lies below the stage's own folder, so the machine stays as it was.
 * Absent on purpose: the system packages and owners of the image (they need its root), users, mounts and networks. What a
 * container engine adds is not tested here.
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { environmentOf, execForm, type Stage, stagesOf } from "../support/dockerfile.ts";

const ROOT = path.resolve(import.meta.dirname, "..", "..");
const CONTEXT = readFileSync(path.join(ROOT, ".dockerignore"), "utf8")
  .split("\n")
  .flatMap((line) => (line.startsWith("!") ? [line.slice(1)] : []));
const STEP_MS = 240_000;
const STOP_MS = 10_000;
const NEEDS_THE_IMAGE = /^apt-get /;

const run = promisify(execFile);
const stages = stagesOf(readFileSync(path.join(ROOT, "docker", "Dockerfile"), "utf8"));
const LAST = stages.length - 1;
const top = mkdtempSync(path.join(tmpdir(), "delegate-mcp-docker-"));
let daemon: ChildProcess | undefined;

afterAll(() => {
  if (daemon?.exitCode === null) daemon.kill("SIGKILL");
  rmSync(top, { recursive: true, force: true });
});

describe("the stages of the Dockerfile", () => {
  it("run to their end and leave nothing to the image but system packages and owners", {
    timeout: STEP_MS,
  }, async () => {
    const skipped: string[] = [];
    for (const [index, stage] of stages.entries()) skipped.push(...(await runStage(stage, index)));
    expect(skipped).toHaveLength(1);
    expect(skipped[0]).toMatch(/^apt-get update && apt-get install .* git tini && rm .* && install --directory .*$/);
  });

  it("end in a program that starts, answers the health check and stops on the stop signal with 0", async () => {
    const env = imageEnvironment();
    const dataDir = env["DELEGATE_MCP_DATA_DIR"] ?? "";
    const cwd = below(LAST, valueOf("WORKDIR"));
    mkdirSync(cwd, { recursive: true });
    mkdirSync(env["HOME"] ?? "", { recursive: true });

    const [init, , ...entry] = execForm(valueOf("ENTRYPOINT"));
    const [program, ...args] = [...entry, ...execForm(valueOf("CMD")), "--json"];
    expect(init).toBe("tini");
    const serving = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "inherit"] });
    daemon = serving;
    const [line] = await once(createInterface(serving.stdout), "line", { signal: AbortSignal.timeout(STOP_MS) });
    expect(JSON.parse(String(line))).toMatchObject({ event: "ready", dataDir });

    const [healthProgram = "", ...healthArgs] = execForm(valueOf("HEALTHCHECK").replace(/^.* CMD /, ""));
    const health = await run(healthProgram, healthArgs, { env, timeout: STOP_MS });
    expect(() => JSON.parse(health.stdout)).not.toThrow();

    const ended = once(serving, "exit", { signal: AbortSignal.timeout(STOP_MS) });
    serving.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
  });
});

/** Runs the instructions that change the stage's folder; answers with those commands that only the image can run. */
async function runStage(stage: Stage, index: number): Promise<readonly string[]> {
  const skipped: string[] = [];
  let workdir = below(index, "/");
  mkdirSync(workdir, { recursive: true });
  for (const { keyword, text } of stage.instructions) {
    if (keyword === "WORKDIR") {
      workdir = below(index, text);
      mkdirSync(workdir, { recursive: true });
    } else if (keyword === "COPY") {
      copy(text.split(" "), index, workdir);
    } else if (keyword === "RUN" && NEEDS_THE_IMAGE.test(text)) {
      skipped.push(text);
    } else if (keyword === "RUN") {
      const command = text.replace(/(?<=^|\s)\/(?=\w)/g, below(index, "/"));
      await run("sh", ["-ec", command], { cwd: workdir, env: await buildEnvironment(index), timeout: STEP_MS });
    }
  }
  return skipped;
}

/** `COPY` from an earlier stage, or from the build context, of which `.dockerignore` names all that there is. */
function copy(words: readonly string[], index: number, workdir: string): void {
  const stage = /^--from=(.+)$/.exec(words[0] ?? "")?.[1];
  const target = words.at(-1) ?? ".";
  const destination = target.startsWith("/") ? below(index, target) : path.join(workdir, target);
  for (const source of words.slice(stage === undefined ? 0 : 1, -1)) {
    if (stage !== undefined) {
      const from = stages.findIndex(({ name }) => name === stage);
      cpSync(below(from, source), destination, { recursive: true });
    } else {
      for (const name of source === "." ? CONTEXT : [source]) {
        expect(CONTEXT).toContain(name);
        cpSync(path.join(ROOT, name), path.join(destination, name), { recursive: true });
      }
    }
  }
}

/** This process's environment, with a global folder of the stage's own: npm keeps its cache and settings. */
async function buildEnvironment(index: number): Promise<NodeJS.ProcessEnv> {
  const { stdout } = await run("npm", ["config", "get", "globalconfig"], { cwd: top });
  return {
    ...process.env,
    PATH: pathOf(index),
    AGENT_PACKAGES: "",
    npm_config_prefix: below(index, "/usr/local"),
    npm_config_globalconfig: stdout.trim(),
    npm_config_prefer_offline: "true",
  };
}

/** The image's environment, its folders below the stage's own, on a free port of loopback. */
function imageEnvironment(): Record<string, string> {
  const declared = environmentOf(valueOf("ENV"));
  const moved = Object.entries(declared).map(([name, value]) => [
    name,
    value.startsWith("/") ? below(LAST, value) : value,
  ]);
  return { ...Object.fromEntries(moved), PATH: pathOf(LAST), DELEGATE_MCP_HOST: "127.0.0.1", DELEGATE_MCP_PORT: "0" };
}

function pathOf(index: number): string {
  return [below(index, "/usr/local/bin"), path.dirname(process.execPath), process.env["PATH"]].join(path.delimiter);
}

/** The argument of the image's only instruction of this kind. */
function valueOf(keyword: string): string {
  const found = stages[LAST]?.instructions.filter((instruction) => instruction.keyword === keyword) ?? [];
  expect(found).toHaveLength(1);
  return found[0]?.text ?? "";
}

/** Where a path of the stage's file system lies on this machine. */
function below(index: number, absolute: string): string {
  return path.join(top, String(index), absolute);
}
