/**
 * A daemon of a few lines around the real guard client, to be killed and frozen by tests. Run by Node with one argument:
 *
 *   {"daemonId": "d", "leaseMs": 900, "beatMs": 50, "reap": "<mark>" or null, "spawn": {"mark": "…", "command": ["…"]} or null}
 *
 * It reaps first, if told so, then spawns, and beats. It writes one JSON line for each thing that happens:
 * `{"event": "reaped", "kind": "proven", "proof": "…"}`, `{"event": "started", "pid": 1}` or `{"event": "failed", "code": "…"}`,
 * `{"event": "ended", "kind": "…"}`, and `{"event": "guard", "pid": 2}`. A line on standard input is a further spawn
 * `{"mark": "…", "command": ["…"]}`. It ends with the end of its standard input, after a release.
 */

import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { createGuardClient } from "../../src/guard/guard-client.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { SpawnSpec } from "../../src/ports/children.ts";
import type { LogFields } from "../../src/ports/log.ts";

type Order = Pick<SpawnSpec, "mark" | "command">;

const { daemonId, leaseMs, beatMs, reap, spawn } = JSON.parse(process.argv[2] ?? "{}");
const ignore = (): void => undefined;
const children = createGuardClient({
  daemonId,
  leaseMs,
  clock: createGuardClock(),
  log: { debug: ignore, info: tellGuard, warn: ignore, error: tellGuard },
});
setInterval(children.heartbeat, beatMs);
if (reap !== null) {
  const report = await children.stop({ mark: reap, process: null, background: "reap" });
  tell("reaped", { kind: report.kind, proof: report.kind === "proven" ? report.stop.proof : null });
}
if (spawn !== null) await start(spawn);
for await (const line of createInterface({ input: process.stdin })) await start(JSON.parse(line));
await children.release("stop");
process.exit(0);

async function start({ mark, command }: Order): Promise<void> {
  const env = { PATH: process.env["PATH"] ?? "" };
  const result = await children.spawn({ mark, command, cwd: tmpdir(), env, stdin: "" });
  if (result.kind === "failed") return tell("failed", { code: result.code });
  tell("started", { pid: result.child.process.pid });
  void result.child.ended.then((end) => tell("ended", { kind: end.kind }));
}

function tellGuard(event: string, fields?: LogFields): void {
  if (event === "guard_started") tell("guard", { pid: fields?.["pid"] ?? null });
}

function tell(event: string, fields: LogFields): void {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}
