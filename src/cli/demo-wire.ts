/**
 * A TCP wire that can be cut: everything that goes through it ends at once, and nothing gets through any more.
 */

import { connect, createServer, type Socket } from "node:net";
import { once } from "node:events";

export type CuttableWire = AsyncDisposable & { readonly port: number; cut(): void };

/** Listens on loopback and forwards to `target` on loopback. */
export async function openCuttableWire(target: number): Promise<CuttableWire> {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    return socket;
  };
  const server = createServer((near) => {
    const far = keep(connect(target, "127.0.0.1"));
    keep(near).pipe(far).pipe(near);
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const cut = (): void => {
    server.close();
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    port: address !== null && typeof address === "object" ? address.port : 0,
    cut,
    async [Symbol.asyncDispose]() {
      cut();
    },
  };
}
