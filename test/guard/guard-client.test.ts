import { describe, expect, it } from "vitest";
import { agentCommand, createTestChildren, readAll, shell } from "../support/processes.ts";

describe("smoke", () => {
  it("runs a child", async () => {
    await using children = createTestChildren();
    const t0 = performance.now();
    const child = await children.start(shell("echo hello; cat; exit 3"), { stdin: "in put" });
    console.log("start", performance.now() - t0);
    const t1 = performance.now();
    expect(await readAll(child.stdout)).toBe("hello\nin put");
    expect(await child.ended).toEqual({ kind: "exited", code: 3, signal: null });
    console.log("ran", performance.now() - t1);
    const t2 = performance.now();
    const r = await children.stop({ mark: child.mark, process: child.process, background: "reap" });
    console.log("stop", performance.now() - t2, JSON.stringify(r));
    const c2 = await children.start(agentCommand([{ start: "session" }, { start: "orphan" }, { ignore: "SIGTERM" }, { print: "x" }, { hang: true }]));
    for await (const _ of c2.stdout) break;
    const t3 = performance.now();
    console.log(JSON.stringify(await children.stop({ mark: c2.mark, process: c2.process, background: "reap" })), performance.now() - t3);
    console.log(children.log.events);
  });
});
