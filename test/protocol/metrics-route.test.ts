/** Who may read the metrics, and as what they arrive. */

import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createMetricsRoute } from "../../src/http/metrics-route.ts";
import { createPrometheusMeter } from "../../src/telemetry/prometheus-meter.ts";
import { at, parsed } from "../support/json.ts";
import { sampleTaskId } from "../support/sample-task.ts";
import { callerNamed, startWireServer, TOKEN, type WireServer } from "../support/wire-server.ts";

const meter = createPrometheusMeter({ clients: [], tools: [] });
const LINEAGE = { taskId: sampleTaskId(1), epoch: 1, ancestors: [] };
const none = (): number => 0;
const live = {
  tasks: async () => ({ working: 1, input_required: 0, completed: 0, failed: 0, cancelled: 0 }),
  running: none,
  queued: none,
  waiting: none,
  eventLoopDelay: () => ({ meanMs: 0, p99Ms: 0, maxMs: 0 }),
};
const route = createMetricsRoute({ render: (openConnections) => meter.render({ ...live, openConnections }) });

let server: WireServer;
beforeAll(async () => {
  server = await startWireServer({ people: [route] });
});
afterAll(() => server.stop());

function metrics(of: WireServer, headers: Readonly<Record<string, string>>, method = "GET"): Promise<Response> {
  return fetch(`${of.origin}/metrics`, { method, headers });
}

describe("GET /metrics", () => {
  it("answers a token that may read with Prometheus' text, which nobody keeps", async () => {
    const answer = await metrics(server, { authorization: `Bearer ${TOKEN}` });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const body = await answer.text();
    expect(body).toContain('\ndelegate_mcp_tasks{status="working"} 1\n');
    expect(body.endsWith("\n")).toBe(true);
  });

  it("refuses nobody's, a wrong and a scopeless token with a next step (P1, X1)", async () => {
    expect((await metrics(server, {})).status).toBe(401);
    expect((await metrics(server, { authorization: "Bearer wrong-token" })).status).toBe(401);
    const scopeless = { ...callerNamed("nobody"), scopes: [] };
    await using other = await startWireServer({ people: [route], http: { authenticate: () => scopeless } });
    const answer = await metrics(other, { authorization: `Bearer ${TOKEN}` });
    expect(answer.status).toBe(403);
    const body = parsed(await answer.text());
    expect(at(body, "error", "code")).toBe("not_allowed");
    expect(at(body, "next", "kind")).toBe("ask_user");
  });

  it("refuses children, whatever their scopes (P18)", async () => {
    const child = { ...callerNamed("kid"), kind: "child", lineage: LINEAGE } as const;
    await using forChildren = await startWireServer({ people: [route], http: { authenticate: () => child } });
    expect((await metrics(forChildren, { authorization: "Bearer x" })).status).toBe(403);
  });

  it("counts the connections that are open, and those that were closed no more", async () => {
    await using fresh = await startWireServer({ people: [route] });
    const connections = async (): Promise<number> => {
      const headers = { authorization: `Bearer ${TOKEN}` };
      // Without an agent a request has a connection of its own, which ends with it.
      const request = http.get(`${fresh.origin}/metrics`, { agent: false, headers });
      const [answer]: http.IncomingMessage[] = await once(request, "response");
      return Number(/^delegate_mcp_connections_open (\d+)$/m.exec(answer === undefined ? "" : await text(answer))?.[1]);
    };
    await vi.waitFor(async () => expect(await connections()).toBe(1));
    const idle = net.connect(fresh.port, "127.0.0.1");
    await once(idle, "connect");
    await vi.waitFor(async () => expect(await connections()).toBe(2));
    idle.destroy();
    await vi.waitFor(async () => expect(await connections()).toBe(1));
  });

  it("takes no other method", async () => {
    const answer = await metrics(server, { authorization: `Bearer ${TOKEN}` }, "POST");
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toContain("GET");
  });
});
