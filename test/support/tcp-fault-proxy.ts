/**
 * A TCP relay that breaks connections on purpose, between any client and any server on loopback.
 *
 * Invariant: bytes are passed on unchanged and in order until the fault strikes.
 * Words: up is towards the server, down is towards the client.
 */

import net from "node:net";

/** What happens to a connection; faults set on the proxy apply to connections opened afterwards. */
export type TcpFault =
  | { readonly kind: "none" }
  /** Resets both sides after so many bytes down. */
  | { readonly kind: "cut_after"; readonly bytesDown: number }
  /** Each piece down leaves so much later. */
  | { readonly kind: "delay"; readonly delayMs: number }
  /** Resets both sides once nothing has moved for so long, as load balancers do. */
  | { readonly kind: "idle_limit"; readonly idleMs: number }
  /** Accepts and then passes nothing on. */
  | { readonly kind: "black_hole" }
  /** Resets the client's side at once: nobody is listening. */
  | { readonly kind: "refuse" };

export type ProxyConnection = {
  /** Resets both sides. */
  cut(): void;
  /** Ends the client's side in good order and resets the server's. */
  halfClose(): void;
  /** Passes nothing on from now on, both sides stay open. */
  blackHole(): void;
  isOpen(): boolean;
};

export type TcpFaultProxy = AsyncDisposable & {
  readonly port: number;
  /** The same URL through the proxy. */
  through(url: string): string;
  /** Sets the fault for later connections. */
  set(fault: TcpFault): void;
  /** Where later connections go. */
  retarget(port: number): void;
  /** Every connection so far, oldest first. */
  readonly connections: readonly ProxyConnection[];
  /** The next connection over which an event stream starts to come down and that has not been taken yet. */
  streamStarted(): Promise<ProxyConnection>;
};

/** The head of an answer that is an event stream; it is sent in one piece with the first event. */
const STREAM_HEAD = "content-type: text/event-stream";

export async function startTcpFaultProxy(targetPort: number): Promise<TcpFaultProxy> {
  const connections: ProxyConnection[] = [];
  const streams: ProxyConnection[] = [];
  const takers: ((connection: ProxyConnection) => void)[] = [];
  let fault: TcpFault = { kind: "none" };
  let target = targetPort;
  const streamBegan = (connection: ProxyConnection): void => {
    const taker = takers.shift();
    if (taker === undefined) streams.push(connection);
    else taker(connection);
  };
  const server = net.createServer((client) => {
    if (fault.kind === "refuse") client.resetAndDestroy();
    else connections.push(relay(client, net.connect(target, "127.0.0.1"), fault, streamBegan));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the proxy has no port");
  return {
    port: address.port,
    connections,
    through(url) {
      const proxied = new URL(url);
      proxied.port = String(address.port);
      return proxied.href;
    },
    set(next) {
      fault = next;
    },
    retarget(port) {
      target = port;
    },
    streamStarted() {
      const first = streams.shift();
      if (first !== undefined) return Promise.resolve(first);
      const { promise, resolve } = Promise.withResolvers<ProxyConnection>();
      takers.push(resolve);
      return promise;
    },
    async [Symbol.asyncDispose]() {
      for (const connection of connections) connection.cut();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function relay(
  client: net.Socket,
  upstream: net.Socket,
  fault: TcpFault,
  streamBegan: (connection: ProxyConnection) => void,
): ProxyConnection {
  let swallowing = fault.kind === "black_hole";
  let bytesDown = 0;
  let idle: NodeJS.Timeout | undefined;

  const cut = (): void => {
    clearTimeout(idle);
    client.resetAndDestroy();
    upstream.resetAndDestroy();
  };
  const moved = (): void => {
    if (fault.kind !== "idle_limit") return;
    clearTimeout(idle);
    idle = setTimeout(cut, fault.idleMs);
  };
  const down = (chunk: Buffer): void => {
    if (swallowing || client.destroyed) return;
    moved();
    const left = fault.kind === "cut_after" ? fault.bytesDown - bytesDown : chunk.length;
    bytesDown += chunk.length;
    if (left >= chunk.length) client.write(chunk);
    else client.write(chunk.subarray(0, Math.max(0, left)), cut);
    if (chunk.toString("latin1").toLowerCase().includes(STREAM_HEAD)) streamBegan(connection);
  };

  client.on("data", (chunk) => {
    if (swallowing || upstream.destroyed) return;
    moved();
    upstream.write(chunk);
  });
  upstream.on("data", (chunk) => {
    if (fault.kind === "delay") setTimeout(() => down(chunk), fault.delayMs);
    else down(chunk);
  });
  client.on("end", () => upstream.end());
  upstream.on("end", () => client.end());
  client.on("close", () => swallowing || upstream.destroy());
  upstream.on("close", () => swallowing || client.destroy());
  for (const socket of [client, upstream]) socket.on("error", () => socket.destroy());
  moved();

  const connection: ProxyConnection = {
    cut,
    halfClose() {
      client.end();
      upstream.resetAndDestroy();
    },
    blackHole() {
      swallowing = true;
    },
    isOpen: () => !client.destroyed && !upstream.destroyed,
  };
  return connection;
}
