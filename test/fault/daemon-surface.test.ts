/**
 * The real daemon against what networks, disks, users and other programs do to it.
 */

import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import path from "node:path";
import { describe, expect, it } from "vitest";

import { callShown, record, waitUntilEnded } from "../support/answers.ts";
import { type DaemonProcess, runCommand, startDaemonProcess } from "../support/daemon-process.ts";
import { eventually, isAlive } from "../support/processes.ts";
import { startTcpFaultProxy } from "../support/tcp-fault-proxy.ts";
import { openClient } from "../support/mcp-clients.ts";

const script = (...steps: readonly object[]): string => JSON.stringify(steps);

describe("an answer that is lost on the way", () => {
  it("is found again under the same key: one child, one set of ids (P2, P3, P4, H2, F2, F4)", async () => {
    await using daemon = await startDaemonProcess();
    await using proxy = await startTcpFaultProxy(daemon.port);
    const starts = path.join(daemon.work, "starts");
    const task = script(
      { append: starts, everyMs: 600_000 },
      { waitFile: path.join(daemon.work, "gate") },
      { print: "result" },
    );
    const broken = await openClient("1.x", { url: proxy.through(daemon.mcpUrl), token: daemon.token });
    const call = broken.call(
      "delegate_task",
      { clientRequestId: "lost-answer-1", task, access: "read", mode: "wait" },
      { timeoutMs: 4_000 },
    );
    const connection = await proxy.streamStarted();
    proxy.set({ kind: "refuse" });
    connection.cut();
    await expect(call).rejects.toThrow();

    const client = await daemon.client();
    const found = await callShown(client, "task_status", { clientRequestId: "lost-answer-1" });
    const repeated = await callShown(client, "delegate_task", {
      clientRequestId: "lost-answer-1",
      task,
      access: "read",
      mode: "wait",
      waitMs: 0,
    });
    expect(repeated).toMatchObject({ created: "replayed", taskId: found.taskId, nodeId: found.nodeId });
    writeFileSync(path.join(daemon.work, "gate"), "");
    expect(await waitUntilEnded(client, found.taskId)).toMatchObject({ status: "completed", text: "result" });
    expect(readFileSync(starts, "utf8").trim().split("\n")).toHaveLength(1);
  });

  it("of a settled task can be read again and again, by wait and by status (P9, H7, F2)", async () => {
    await using daemon = await startDaemonProcess();
    const client = await daemon.client();
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "read-often-1",
      task: "the echo",
      access: "read",
    });
    await waitUntilEnded(client, taskId);
    for (let time = 0; time < 3; time += 1) {
      expect((await callShown(client, "task_status", { taskId })).text).toBe("the echo");
      expect((await callShown(client, "task_wait", { taskIds: [taskId], waitMs: 0 })).text).toBe("the echo");
    }
  });
});

describe("cancelling", () => {
  it("ends grandchildren in sessions of their own and servers in the background before it says cancelled (P5, P12, C2)", async () => {
    await using daemon = await startDaemonProcess();
    const client = await daemon.client();
    const file = (name: string): string => path.join(daemon.work, name);
    const task = script(
      { start: "session", run: [{ write: file("a") }, { hang: true }] },
      { start: "orphan", run: [{ write: file("b") }, { ignore: "SIGTERM" }, { hang: true }] },
      { start: "child", run: [{ listen: file("c") }, { hang: true }] },
      { write: file("d") },
      { hang: true },
    );
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "cancel-tree-1",
      task,
      access: "read",
    });
    await eventually("all are up", () => ["a", "b", "c", "d"].every((name) => existsSync(file(name))), 15_000);
    const pids = ["a", "b", "d"].map((name) => Number(readFileSync(file(name), "utf8")));
    const cancelled = await callShown(client, "task_cancel", { taskId, reason: "not wanted" });
    expect(cancelled.status).toBe("cancelled");
    expect(record(cancelled.raw["stop"])["proof"]).toMatch(/cgroup|marker\+tree/);
    expect(pids.filter(isAlive)).toEqual([]);
    await expect(fetch(`http://127.0.0.1:${readFileSync(file("c"), "utf8")}`)).rejects.toThrow();
  });

  it("leaves a server that a completed child started nowhere behind (C4)", async () => {
    await using daemon = await startDaemonProcess();
    const client = await daemon.client();
    const file = path.join(daemon.work, "server");
    const task = script(
      { start: "session", run: [{ write: file }, { hang: true }] },
      { waitFile: file },
      { print: "done" },
    );
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "left-server-1",
      task,
      access: "read",
    });
    expect((await waitUntilEnded(client, taskId)).status).toBe("completed");
    expect(isAlive(Number(readFileSync(file, "utf8")))).toBe(false);
  });

  it("keeps what the child had written, marked partial (W5)", async () => {
    await using daemon = await startDaemonProcess();
    const client = await daemon.client();
    const up = path.join(daemon.work, "up");
    const task = script({ print: "half of it" }, { write: up }, { hang: true });
    const { taskId } = await callShown(client, "delegate_task", { clientRequestId: "partial-1", task, access: "read" });
    await eventually("it has written", () => existsSync(up), 10_000);
    const cancelled = await callShown(client, "task_cancel", { taskId });
    expect(cancelled).toMatchObject({ status: "cancelled", text: "half of it" });
    expect(record(cancelled.raw["outcome"])["partial"]).toBe(true);
  });

  it("of many waits, and sessions that are deleted, touch neither the daemon nor other tasks (P7, C5, C7)", async () => {
    await using daemon = await startDaemonProcess();
    const client = await daemon.client();
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "many-waits-1",
      task: script({ waitFile: path.join(daemon.work, "gate") }, { print: "fine" }),
      access: "read",
    });
    for (let round = 0; round < 10; round += 1) {
      const controls = Array.from({ length: 20 }, () => new AbortController());
      const waits = controls.map(({ signal }) =>
        client.call("task_wait", { taskIds: [taskId] }, { signal }).catch(() => "cancelled"),
      );
      for (const control of controls) control.abort();
      await Promise.all(waits);
    }
    const deleted = await fetch(daemon.mcpUrl, {
      method: "DELETE",
      headers: { authorization: `Bearer ${daemon.token}`, "mcp-session-id": client.sessionId() ?? "none" },
    });
    expect(deleted.status).toBe(405);
    const other = await daemon.client("another-session");
    const listed = await other.call("task_list", { open: true });
    expect(listed.text).toContain(taskId);
    writeFileSync(path.join(daemon.work, "gate"), "");
    expect((await waitUntilEnded(other, taskId)).text).toBe("fine");
  });
});

describe("a child that cannot start", () => {
  it("fails within seconds as spawn_error, and a repaired one can be continued (G5)", async () => {
    await using daemon = await startDaemonProcess({
      agents: { missing: { driver: "command", command: ["no-such-program-anywhere"] } },
    });
    const client = await daemon.client();
    const accepted = await callShown(client, "delegate_task", {
      clientRequestId: "missing-1",
      task: "anything",
      access: "read",
    });
    const ended = await waitUntilEnded(client, accepted.taskId);
    expect(ended.status).toBe("failed");
    expect(record(ended.raw["outcome"])["class"]).toBe("spawn_error");
    expect(record(ended.raw["stop"])["proof"]).toBe("none_started");
    expect(ended.next["kind"]).toBe("fix");
    expect(ended.say).toContain("missing");
  });

  it("whose directory is gone by then fails as workspace_missing", async () => {
    await using daemon = await startDaemonProcess({ settings: { DELEGATE_MCP_LIMITS_CONCURRENT_CHILDREN: "1" } });
    const client = await daemon.client();
    const gate = path.join(daemon.work, "gate");
    const gone = path.join(daemon.work, "gone");
    mkdirSync(gone);
    await callShown(client, "delegate_task", {
      clientRequestId: "holder-1",
      task: script({ waitFile: gate }, { print: "x" }),
      access: "read",
    });
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "gone-dir-1",
      task: "anything",
      cwd: gone,
      access: "read",
    });
    const { rmdirSync } = await import("node:fs");
    rmdirSync(gone);
    writeFileSync(gate, "");
    const ended = await waitUntilEnded(client, taskId);
    expect(record(ended.raw["outcome"])["class"]).toBe("workspace_missing");
  });
});

describe("the daemon's own files and ports", () => {
  it("are its user's alone under a permissive umask, and it refuses to start on a token that others can read (X3)", async () => {
    const daemon = await startDaemonProcess();
    const modes = (folder: string): string[] =>
      readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
        const at = path.join(folder, entry.name);
        const mode = (statSync(at).mode & 0o777).toString(8);
        return entry.isDirectory() ? [`d${mode}`, ...modes(at)] : [`f${mode}`];
      });
    expect((statSync(daemon.dataDir).mode & 0o777).toString(8)).toBe("700");
    expect([...new Set(modes(daemon.dataDir))].toSorted()).toEqual(expect.not.arrayContaining(["f644", "d755"]));
    await daemon.kill();
    chmodSync(path.join(daemon.dataDir, "token"), 0o644);
    const refused = await runCommand(["serve", "--json", "--port", "0", "--data-dir", daemon.dataDir], {}, daemon.work);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr + refused.stdout).toMatch(/token/);
    await daemon[Symbol.asyncDispose]();
  });

  it("are never shared: a second daemon on the same directory says where the first one is and ends with 0 (D7)", async () => {
    await using daemon = await startDaemonProcess();
    const second = await runCommand(["serve", "--json", "--port", "0", "--data-dir", daemon.dataDir], {}, daemon.work);
    expect(second.code).toBe(0);
    expect(JSON.parse(second.stdout)).toMatchObject({ event: "already_running", mcpUrl: daemon.mcpUrl });
  });

  it("a busy port is one line and exit code 75, never another port", async () => {
    await using daemon = await startDaemonProcess();
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = address !== null && typeof address === "object" ? address.port : 0;
    const other = path.join(daemon.folder, "other-data");
    const refused = await runCommand(["serve", "--port", String(port), "--data-dir", other], {}, daemon.work);
    server.close();
    expect(refused.code).toBe(75);
    expect(refused.stdout).toBe("");
    expect(refused.stderr).toContain(String(port));
    expect(refused.stderr).not.toMatch(/\n\s+at /);
  });

  it("are not reached by a page of another origin or under another name, on any route (X1)", async () => {
    await using daemon = await startDaemonProcess();
    const authorization = `Bearer ${daemon.token}`;
    for (const route of ["/mcp", "/api/tasks", "/readyz", "/"]) {
      for (const headers of [
        { origin: "http://evil.example" },
        { origin: "null" },
        { origin: "http://evil.example", authorization },
      ]) {
        const response = await fetch(daemon.origin + route, { headers });
        expect([route, response.status]).toEqual([route, 403]);
      }
    }
    expect(await rawStatus(daemon, "evil.example")).toBe(403);
    expect(await rawStatus(daemon, `localhost:${daemon.port}`)).not.toBe(403);
  });

  it("a directory outside the roots is refused by name, also through a link (F34)", async () => {
    await using daemon = await startDaemonProcess();
    const client = await daemon.client();
    const link = path.join(daemon.work, "link");
    symlinkSync("/", link);
    for (const cwd of ["/", link, path.join(daemon.work, "..")]) {
      const refused = await callShown(client, "delegate_task", { clientRequestId: "outside-roots-1", task: "x", cwd });
      expect(refused).toMatchObject({ code: "workspace_not_allowed", created: "none" });
    }
    const missing = await callShown(client, "delegate_task", {
      clientRequestId: "outside-roots-1",
      task: "x",
      cwd: path.join(daemon.work, "nope"),
    });
    expect(missing).toMatchObject({ code: "workspace_failed", created: "none" });
  });
});

/** The status of a request with this Host header, sent as bytes: no client library sends a foreign one. */
async function rawStatus(daemon: DaemonProcess, host: string): Promise<number> {
  const { connect } = await import("node:net");
  const socket = connect(daemon.port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(
    `GET /api/tasks HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nAuthorization: Bearer ${daemon.token}\r\n\r\n`,
  );
  let head = "";
  for await (const chunk of socket) head += String(chunk);
  return Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1]);
}
