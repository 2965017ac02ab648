/**
 * `GET /metrics`: what is counted and measured, as a Prometheus server reads it. For tokens with the scope `read`; one of the
 * plugins for people, so that children are refused before.
 *
 * Absent on purpose: a port of its own without a token. A scraper can send a header.
 */

import type { Server } from "node:http";
import type { FastifyPluginAsync } from "fastify";
import { requireScope } from "./auth.ts";

export type MetricsRouteOptions = {
  /** Everything as text; `openConnections` counts those of the server that the route is on. */
  readonly render: (openConnections: () => number) => Promise<{ readonly contentType: string; readonly body: string }>;
};

export function createMetricsRoute({ render }: MetricsRouteOptions): FastifyPluginAsync {
  return async (app) => {
    const openConnections = countConnections(app.server);
    app.get("/metrics", { onRequest: requireScope("read") }, async (_request, reply) => {
      const { contentType, body } = await render(openConnections);
      return reply.type(contentType).header("cache-control", "no-store").send(body);
    });
  };
}

function countConnections(server: Server): () => number {
  let open = 0;
  server.on("connection", (socket) => {
    open++;
    socket.once("close", () => open--);
  });
  return () => open;
}
