/**
 * Liveness and readiness for orchestrators: no token, no details.
 *
 * `/livez` says that the process answers at all and takes any Host; `/readyz` says whether new work would be accepted.
 */

import type { FastifyPluginAsync } from "fastify";

/** `isReady` is asked on every probe; it must be cheap. */
export function createHealthPlugin(isReady: () => boolean): FastifyPluginAsync {
  return async (app) => {
    app.get("/livez", { config: { access: "open", hostCheck: "off" } }, async () => ({ status: "live" }));
    app.get("/readyz", { config: { access: "open" } }, async (_request, reply) => {
      const ready = isReady();
      return reply.code(ready ? 200 : 503).send({ status: ready ? "ready" : "not_ready" });
    });
  };
}
