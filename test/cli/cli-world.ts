/**
 * A command line in a scratch folder, against a REST surface on a real socket whose answers the test scripts.
 *
 * Invariant: the command itself is the shipped one; only the process around it (streams, signals) is the test's.
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { writeDaemonFile } from "../../src/config/daemon-files.ts";
import { preparePrivateDir, writePrivateFile } from "../../src/config/private-files.ts";
import type { StartDaemon } from "../../src/cli/daemon.ts";
import type { Io, Signal } from "../../src/cli/io.ts";
import { runCommandLine } from "../../src/cli/program.ts";
import { scratch } from "../tooling/scratch.ts";

export const TOKEN = "dmcp_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";

export type Asked = {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly token: string | null;
  readonly body: Readonly<Record<string, unknown>>;
};

/** An answer; `cut` closes the connection instead; `hold` keeps it open until the client has gone. */
export type Scripted =
  | { readonly status?: number; readonly json: unknown }
  | { readonly status: number; readonly html: string }
  | "cut"
  | "hold";

export type Script = (asked: Asked, count: number) => Scripted;

export type CliWorld = AsyncDisposable & {
  readonly dir: string;
  readonly dataDir: string;
  readonly url: string;
  readonly asked: readonly Asked[];
  answer(script: Script): void;
  /** Ends the server and starts another on a port of its own, as a restarted daemon does. `script`: what that one answers. */
  restart(script: Script): Promise<void>;
  run(args: readonly string[], options?: RunOptions): Promise<Ran>;
  /** Starts a command whose end the test does not wait for yet. */
  start(args: readonly string[], options?: RunOptions): Running;
};

export type RunOptions = {
  readonly env?: Readonly<Record<string, string>>;
  readonly terminal?: boolean;
  readonly columns?: number;
  readonly stdin?: string;
  /** Leaves out `--data-dir`. */
  readonly bare?: boolean;
  readonly startDaemon?: StartDaemon;
  readonly stopMaxMs?: number;
};

export type Ran = { readonly code: number; readonly stdout: string; readonly stderr: string };

export type Running = {
  readonly ended: Promise<Ran>;
  signal(signal: Signal): void;
  /** Exit codes of ends that could not wait. */
  readonly exits: readonly number[];
  stdout(): string;
  stderr(): string;
};

export async function createCliWorld(): Promise<CliWorld> {
  const folder = scratch();
  const dataDir = path.join(folder.dir, "data");
  preparePrivateDir(dataDir);
  writePrivateFile(path.join(dataDir, "token"), `${TOKEN}\n`);
  const asked: Asked[] = [];
  let script: Script = () => ({ status: 500, html: "no script" });
  let server = await openServer(asked, () => script);
  const leaveAddress = (): void => {
    const { url } = server;
    writeDaemonFile(dataDir, {
      pid: process.pid,
      url,
      mcpUrl: `${url}/mcp`,
      version: "9.9.9",
      startedAt: "2026-01-01T00:00:00.000Z",
    });
  };
  leaveAddress();

  const start = (args: readonly string[], options: RunOptions = {}): Running => {
    const { io, output, signal, exits } = createTestIo(folder.dir, options);
    const all = options.bare === true ? args : [...args, "--data-dir", dataDir];
    const startDaemon = options.startDaemon ?? (() => Promise.reject(new Error("this test starts no daemon")));
    const parts = {
      io,
      version: "1.2.3",
      loadDaemon: async () => startDaemon,
      ...(options.stopMaxMs === undefined ? {} : { stopMaxMs: options.stopMaxMs }),
    };
    const ended = runCommandLine(all, parts).then((code) => ({ code, stdout: output.stdout, stderr: output.stderr }));
    return { ended, signal, exits, stdout: () => output.stdout, stderr: () => output.stderr };
  };

  return {
    dir: folder.dir,
    dataDir,
    get url() {
      return server.url;
    },
    asked,
    answer(next) {
      script = next;
    },
    async restart(next) {
      await server.close();
      script = next;
      server = await openServer(asked, () => script);
      leaveAddress();
    },
    start,
    run: (args, options) => start(args, options).ended,
    async [Symbol.asyncDispose]() {
      await server.close();
      folder[Symbol.dispose]();
    },
  };
}

type Server = { readonly url: string; close(): Promise<void> };

async function openServer(asked: Asked[], script: () => Script): Promise<Server> {
  let count = 0;
  const server = createServer((request, response) => {
    void readAsked(request).then((seen) => {
      asked.push(seen);
      reply(response, script()(seen, count++));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function readAsked(request: IncomingMessage): Promise<Asked> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  const text = Buffer.concat(chunks).toString("utf8");
  const body: Record<string, unknown> = text === "" ? {} : JSON.parse(text);
  const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? "")?.[1] ?? null;
  return { method: request.method ?? "", url: request.url ?? "", token, body };
}

function reply(response: ServerResponse, scripted: Scripted): void {
  if (scripted === "hold") return;
  if (scripted === "cut") {
    response.socket?.destroy();
    return;
  }
  const [type, text] =
    "html" in scripted ? ["text/html", scripted.html] : ["application/json", JSON.stringify(scripted.json)];
  response.writeHead(scripted.status ?? 200, { "content-type": type });
  response.end(text);
}

function createTestIo(cwd: string, options: RunOptions) {
  const output = { stdout: "", stderr: "" };
  const exits: number[] = [];
  const handlers = new Set<{ readonly signals: readonly Signal[]; readonly handle: (signal: Signal) => void }>();
  const stream = (name: "stdout" | "stderr") => ({
    write: (text: string) => {
      output[name] += text;
    },
    isTTY: options.terminal ?? false,
    columns: options.columns ?? 100,
    writableLength: 0,
    isClosed: false,
  });
  const io: Io = {
    env: options.env ?? {},
    cwd,
    stdout: stream("stdout"),
    stderr: stream("stderr"),
    readStdin: async () => options.stdin ?? "",
    onSignals(signals, handle) {
      const entry = { signals, handle };
      handlers.add(entry);
      return { [Symbol.dispose]: () => void handlers.delete(entry) };
    },
    exitNow(code) {
      exits.push(code);
      throw new Error(`exit ${code}`);
    },
    restart: () => {
      throw new Error("restarted");
    },
  };
  const signal = (sent: Signal): void => {
    const heard = [...handlers].filter((entry) => entry.signals.includes(sent));
    if (heard.length === 0) throw new Error(`nobody listens for ${sent}`);
    try {
      for (const entry of heard) entry.handle(sent);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("exit "))) throw error;
    }
  };
  return { io, output, signal, exits };
}

/** Resolves when `isTrue` holds; for what another process or a socket does. At most 5 s. */
export async function until(isTrue: () => boolean, what: string): Promise<void> {
  for (const deadlineMs = Date.now() + 5_000; !isTrue(); ) {
    if (Date.now() > deadlineMs) throw new Error(`did not happen in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const ULID = "01M8RB6A55JAK79A8N9ME45MJ";

/** `dt_…` number `n` (0–9). */
export function taskId(n = 0): string {
  return `dt_${ULID}${n}`;
}

/** A task as the daemon answers it. */
export function task(fields: Readonly<Record<string, unknown>> = {}, n = 0): Record<string, unknown> {
  return {
    say: `WORKING, healthy: "Review the diff".`,
    next: { kind: "wait", tool: "task_wait", arguments: { taskIds: [taskId(n)], after: "1" } },
    status: "working",
    phase: "running",
    taskId: taskId(n),
    childThreadId: `th_${ULID}${n}`,
    nodeId: `node:delegated-task:${taskId(n)}`,
    title: "Review the diff",
    agent: "mine",
    createdAt: "2026-01-01T00:00:00.000Z",
    workspace: { cwd: "/srv/shop", access: "read" },
    meta: { clientRequestId: "review-7f3k9q" },
    ...fields,
  };
}

/** The same task after its end. */
export function settled(
  status: "completed" | "failed" | "cancelled",
  fields: Readonly<Record<string, unknown>> = {},
  n = 0,
): Record<string, unknown> {
  const say = `${status.toUpperCase()}: "Review the diff".`;
  const fromChild = {
    note: "by the child",
    result: { text: "All good.\nNo findings.", truncated: false, totalBytes: 22 },
  };
  return task({ say, status, phase: "settled", settlement: 1, next: { kind: "use_result" }, fromChild, ...fields }, n);
}

export function refusal(code: string, say = `NOT STARTED (${code}).`): Record<string, unknown> {
  return { say, next: { kind: "fix" }, created: "none", error: { code, retryable: false } };
}
