/**
 * A receiver that is a program of the operator: the notice on standard input, its ids in the environment.
 *
 * Invariant: no shell, and nothing of the daemon's environment but what is handed in.
 * Invariant: a program that runs too long is killed with its whole process group, and its notice is told again.
 * Absent on purpose: its output, which is thrown away, and stopping what it leaves running after it has ended by itself.
 */

import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Writable } from "node:stream";
import type { Clock } from "../ports/clock.ts";
import type { NoticeMessage, NoticeOutcome, Notifier } from "../ports/notifier.ts";
import { again, codeOf, DELIVERED, DELIVERY_MS, noticeJson, targetName } from "./notice.ts";

export type CommandHookOptions = {
  readonly command: readonly [string, ...string[]];
  /** The whole environment of the program, before the notice's own variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly clock: Clock;
  /** Kills the process group that this process leads. */
  readonly killGroup: (leaderPid: number) => void;
  readonly timeoutMs?: number;
};

export function createCommandHook(options: CommandHookOptions): Notifier {
  return {
    name: targetName("command", JSON.stringify(options.command)),
    async deliver(message) {
      try {
        return await run(options, message);
      } catch (error) {
        return again(`the program could not be started (${codeOf(error)})`);
      }
    },
  };
}

/** Rejects if the program cannot be started. */
function run(options: CommandHookOptions, message: NoticeMessage): Promise<NoticeOutcome> {
  const { clock, killGroup, timeoutMs = DELIVERY_MS } = options;
  return new Promise((resolve, reject) => {
    const child = start(options, message);
    child.on("error", reject);
    const { pid } = child;
    // Without a pid there is no process and perhaps no stream either; the error event follows.
    if (pid === undefined) return;
    const timer = clock.after(timeoutMs, () => {
      killGroup(pid);
      child.stdin.destroy();
      resolve(again(`the program was still running after ${timeoutMs / 1_000} s and was killed`));
    });
    child.once("exit", (code, signal) => {
      timer[Symbol.dispose]();
      child.stdin.destroy();
      resolve(outcomeOf(code, signal));
    });
    // A program need not read its input.
    child.stdin.on("error", () => undefined);
    child.stdin.end(`${noticeJson(message.body)}\n`);
  });
}

function start(
  { command, env }: CommandHookOptions,
  message: NoticeMessage,
): ChildProcessByStdio<Writable, null, null> {
  const [program, ...args] = command;
  const variables = { ...env, ...noticeVariables(message) };
  return spawn(program, args, { env: variables, detached: true, shell: false, stdio: ["pipe", "ignore", "ignore"] });
}

function noticeVariables({ id, body }: NoticeMessage): Record<string, string> {
  return {
    DELEGATE_NOTICE_ID: id,
    DELEGATE_NOTICE_TYPE: body.type,
    DELEGATE_NOTICE_TASK_ID: body.data.taskId,
    DELEGATE_NOTICE_STATUS: body.data.status,
    DELEGATE_NOTICE_SETTLEMENT: String(body.data.settlement),
  };
}

function outcomeOf(code: number | null, signal: string | null): NoticeOutcome {
  if (code === 0) return DELIVERED;
  return again(signal === null ? `the program exited with ${code}` : `the program was ended by ${signal}`);
}
