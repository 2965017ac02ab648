/**
 * Binds a ready app to its address. A busy port is a value with a name; another port is never taken instead.
 */

import type { FastifyInstance } from "fastify";

export type Bound =
  /** `url`: the origin under which it answers. */
  | { readonly kind: "bound"; readonly url: string }
  | { readonly kind: "refused"; readonly reason: "port_busy" | "cannot_listen"; readonly message: string };

/** Closes the app if it cannot listen. */
export async function listen(app: FastifyInstance, host: string, port: number): Promise<Bound> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    await app.close();
    const code = error instanceof Error && "code" in error ? String(error.code) : "unknown";
    const reason = code === "EADDRINUSE" ? "port_busy" : "cannot_listen";
    return { kind: "refused", reason, message: `${host}:${port} cannot be listened on (${code})` };
  }
  const address = app.server.address();
  const bound = address !== null && typeof address === "object" ? address.port : port;
  return { kind: "bound", url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}` };
}
