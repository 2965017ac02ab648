/**
 * Loaded into a server before its own code (`--import`): answers questions about that process on its IPC channel.
 *
 * Invariant: the server under measurement is otherwise the one that users run; nothing but the time of each commit is
 * noted, and nothing is answered that was not asked for.
 * Invariant: a server whose bench is gone ends.
 */

import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { nowMs } from "./now.ts";

/** Commits that are remembered; a reader asks more often than that. */
const COMMITS_MAX = 10_000;
/** What sockets and streams leave behind is let go of in steps; two collections with a pause between reach it. */
const SETTLE_MS = 150;

const commitsMs: number[] = [];

function noteCommit(sql: string): void {
  if (sql !== "commit") return;
  if (commitsMs.length >= COMMITS_MAX) commitsMs.splice(0, COMMITS_MAX / 2);
  commitsMs.push(nowMs());
}

const { prepare, exec } = DatabaseSync.prototype;

DatabaseSync.prototype.prepare = function prepareNoting(sql, ...rest) {
  const statement = prepare.call(this, sql, ...rest);
  if (sql !== "commit") return statement;
  const run = statement.run.bind(statement);
  statement.run = () => {
    const result = run();
    noteCommit(sql);
    return result;
  };
  return statement;
};

DatabaseSync.prototype.exec = function execNoting(sql) {
  exec.call(this, sql);
  noteCommit(sql);
};

async function answer(question: unknown): Promise<unknown> {
  switch (question) {
    case "usage": {
      const { user, system } = process.cpuUsage();
      return { usageUs: user + system };
    }
    case "memory": {
      globalThis.gc?.();
      await delay(SETTLE_MS);
      globalThis.gc?.();
      const { rss, heapUsed } = process.memoryUsage();
      return { rssBytes: rss, heapBytes: heapUsed };
    }
    case "commits":
      return { commitsMs: commitsMs.splice(0) };
    default:
      return {};
  }
}

process.on("message", (question) => {
  void answer(question).then((reply) => process.send?.(reply));
});
process.on("disconnect", () => process.kill(process.pid, "SIGINT"));
// The channel alone is no reason to stay.
process.channel?.unref();
