/**
 * A call that is held: one socket, the request written by hand, nothing kept of the answer but when it came. Thousands of
 * them cost this process little, so that what is measured is the server.
 */

import { connect } from "node:net";
import { nowMs } from "./now.ts";
import type { Call } from "./wire.ts";

export type HeldCall = Disposable & {
  /** When the answer's last message was here (`nowMs`). Rejects if the socket ends before it. */
  readonly answeredMs: Promise<number>;
  readonly connected: Promise<void>;
  /** Resolves with the first byte of the response. */
  readonly opened: Promise<void>;
};

const RESULT = '"result":';

export function holdCall(url: URL, { headers, body }: Call): HeldCall {
  const connected = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<number>();
  // Whoever does not wait for one of them is not told of a failure either.
  for (const { promise } of [connected, opened, answered]) promise.catch(() => undefined);
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  let tail = "";
  socket.setEncoding("latin1");
  socket.on("connect", () => connected.resolve());
  socket.on("data", (part: string) => {
    const seen = tail + part;
    opened.resolve();
    if (seen.includes(RESULT)) answered.resolve(nowMs());
    tail = seen.slice(-RESULT.length);
  });
  const fail = (error: Error): void => {
    connected.reject(error);
    opened.reject(error);
    answered.reject(error);
  };
  socket.on("error", fail);
  socket.on("close", () => fail(new Error("the connection ended before the answer")));
  const lines = Object.entries({ host: url.host, "content-length": String(Buffer.byteLength(body)), ...headers });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  socket.write(`POST ${url.pathname} HTTP/1.1\r\n${head}\r\n${body}`);
  return {
    answeredMs: answered.promise,
    connected: connected.promise,
    opened: opened.promise,
    [Symbol.dispose]: () => socket.destroy(),
  };
}
