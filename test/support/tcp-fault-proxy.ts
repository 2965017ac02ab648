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
  /** True if this text has come down. */
  carried(text: string): boolean;
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
  /** Cuts the open connections over which an event stream is coming down; how many there were. */
  cutStreams(): number;
};

/** Enough of what came down to recognise the head of an answer. */
const REMEMBERED_CHARACTERS = 16_384;

export async function startTcpFaultProxy(targetPort: number): Promise<TcpFaultProxy> {
  const connections: ProxyConnection[] = [];
  let fault: TcpFault = { kind: "none" };
  let target = targetPort;
  const server = net.createServer((client) => {
    if (fault.kind === "refuse") client.resetAndDestroy();
    else connections.push(relay(client, net.connect(target, "127.0.0.1"), fault));
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
    cutStreams() {
      const streams = connections.filter((connection) => connection.isOpen() && connection.carried("text/event-stream"));
      for (const stream of streams) stream.cut();
      return streams.length;
    },
    async [Symbol.asyncDispose]() {
      for (const connection of connections) connection.cut();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function relay(client: net.Socket, upstream: net.Socket, fault: TcpFault): ProxyConnection {
  let swallowing = fault.kind === "black_hole";
  let bytesDown = 0;
  let seenDown = "";
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
    seenDown = (seenDown + chunk.toString("latin1")).slice(-REMEMBERED_CHARACTERS);
    const left = fault.kind === "cut_after" ? fault.bytesDown - bytesDown : chunk.length;
    bytesDown += chunk.length;
    if (left >= chunk.length) client.write(chunk);
    else client.write(chunk.subarray(0, Math.max(0, left)), cut);
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

  return {
    cut,
    halfClose() {
      client.end();
      upstream.resetAndDestroy();
    },
    blackHole() {
      swallowing = true;
    },
    carried: (text) => seenDown.includes(text),
    isOpen: () => !client.destroyed && !upstream.destroyed,
  };
}
