/**
 * A child program that does what a script says: a plain program for driver `command` and for the guard, run by Node
 * (`node test/support/fake-agent.ts`). It uses nothing of the project.
 *
 * The script is a JSON array of steps, taken from the first argument, else from the text that it was given as its task
 * (the file named by DELEGATE_CHILD_TASK_FILE, else standard input read to its end): there from the first `[{` to the last
 * `]`. A task without a script is printed back as it is: an echo agent. After the last step it ends with status 0.
 *
 *   {"print": "text", "to": "stderr"}       writes the text as it is; `to` is stdout unless given (so for all that print)
 *   {"printBytes": 5000000, "of": "x"}      that many bytes of one character, waiting while nobody reads
 *   {"printSlowly": "text"}                 one byte at a time, each in a write of its own
 *   {"flood": "x"}                          this text again and again without end
 *   {"echo": "task" | "history" | "cwd" | "env:NAME" | "environment"}
 *                                           prints the task, the history file, the folder, a variable, all as JSON
 *   {"readStdin": true}                     reads standard input to its end
 *   {"title": "name"}                       rewrites its command line as other processes see it
 *   {"ignore": "SIGTERM"}                   from here on
 *   {"append": "file", "everyMs": 5}        from here on writes lines `<pid> <epoch ms>` to the file, in the background
 *   {"write": "file", "text": "…"}          replaces a file; without text its own pid
 *   {"start": "child" | "session" | "orphan", "run": [steps], "clearEnv": true, "holdOutput": true}
 *                                           starts a process in the background: in its own process group's session, in a new
 *                                           session, or in a new session with its parent gone (double fork). It runs the
 *                                           steps, or sleeps ten minutes. `clearEnv`: with an empty environment.
 *                                           `holdOutput`: it keeps standard output and error open
 *   {"listen": "file"}                      a server on a free loopback port, which it writes to the file; runs on
 *   {"waitFile": "file"}                    goes on when the file exists
 *   {"hang": true}                          never goes on
 *   {"exit": 3}, {"die": "SIGKILL"}         ends at once
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { text } from "node:stream/consumers";
import { setImmediate as turn, setTimeout as delay } from "node:timers/promises";

type Step = Readonly<Record<string, unknown>>;

const WAIT_MS = 5;
const HANG_MS = 600_000;
const CHUNK_BYTES = 64 * 1024;

let task = "";

const ACTIONS: Readonly<Record<string, (step: Step) => unknown>> = {
  print: (step) => write(step, String(step["print"])),
  async printBytes(step) {
    const chunk = Buffer.alloc(CHUNK_BYTES, String(step["of"] ?? "x"));
    for (let left = Number(step["printBytes"]); left > 0; left -= chunk.length)
      await write(step, chunk.subarray(0, left));
  },
  async printSlowly(step) {
    for (const byte of Buffer.from(String(step["printSlowly"]))) {
      await write(step, Buffer.of(byte));
      await turn();
    }
  },
  async flood(step) {
    const chunk = Buffer.from(String(step["flood"]).repeat(1_000));
    for (;;) await write(step, chunk);
  },
  echo: (step) => write(step, echoOf(String(step["echo"]))),
  readStdin: () => text(process.stdin),
  title(step) {
    process.title = String(step["title"]);
  },
  ignore: (step) => process.on(String(step["ignore"]), () => undefined),
  append(step) {
    const file = String(step["append"]);
    const line = (): void => appendFileSync(file, `${process.pid} ${Date.now()}\n`);
    line();
    setInterval(line, Number(step["everyMs"] ?? WAIT_MS));
  },
  write: (step) => writeFileSync(String(step["write"]), String(step["text"] ?? process.pid)),
  start: (step) => startBackground(step),
  async listen(step) {
    const server = createServer((socket) => socket.end());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    writeFileSync(String(step["listen"]), typeof address === "object" ? String(address?.port) : "");
  },
  async waitFile(step) {
    while (!existsSync(String(step["waitFile"]))) await delay(WAIT_MS);
  },
  hang: () => delay(HANG_MS),
  exit: (step) => process.exit(Number(step["exit"])),
  die: (step) => process.kill(process.pid, String(step["die"])),
};

await run(await readScript());
process.exit(0);

async function readScript(): Promise<readonly Step[]> {
  const given = process.argv[2];
  if (given !== undefined) return JSON.parse(given);
  const file = process.env["DELEGATE_CHILD_TASK_FILE"];
  task = file === undefined ? await text(process.stdin) : readFileSync(file, "utf8");
  const from = task.indexOf("[{");
  const until = task.lastIndexOf("]");
  return from < 0 || until < from ? [{ echo: "task" }] : JSON.parse(task.slice(from, until + 1));
}

async function run(steps: readonly Step[]): Promise<void> {
  for (const step of steps) {
    const [name] = Object.keys(step);
    const act = name === undefined ? undefined : ACTIONS[name];
    if (act === undefined) throw new Error(`no such step: ${JSON.stringify(step)}`);
    await act(step);
  }
}

async function write(step: Step, bytes: string | Buffer): Promise<void> {
  const stream = step["to"] === "stderr" ? process.stderr : process.stdout;
  await new Promise<void>((resolve) => {
    stream.write(bytes, () => resolve());
  });
}

function echoOf(what: string): string {
  if (what === "cwd") return process.cwd();
  if (what === "environment") return JSON.stringify(process.env);
  if (what === "history") return readFileSync(process.env["DELEGATE_CHILD_HISTORY_FILE"] ?? "", "utf8");
  if (what.startsWith("env:")) return process.env[what.slice("env:".length)] ?? "";
  return task;
}

/** Resolves when the process runs, an orphan's parent is gone. */
async function startBackground(step: Step): Promise<void> {
  const nested = step["run"];
  const program: readonly string[] =
    nested === undefined ? ["/bin/sleep", "600"] : [process.execPath, import.meta.filename, JSON.stringify(nested)];
  const kind = step["start"];
  const line = kind === "orphan" ? ["/bin/sh", "-c", '"$@" & exit 0', "sh", ...program] : program;
  const [command = "", ...args] = line;
  const output = step["holdOutput"] === true ? "inherit" : "ignore";
  const child: ChildProcess = spawn(command, args, {
    detached: kind !== "child",
    stdio: ["ignore", output, output],
    env: step["clearEnv"] === true ? {} : process.env,
  });
  await once(child, kind === "orphan" ? "exit" : "spawn");
  child.unref();
}
