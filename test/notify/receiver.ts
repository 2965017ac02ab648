/**
 * A real receiver of webhooks on loopback, and a notice to send it.
 */

import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { nodeIdOf, taskIdFrom, threadIdFrom } from "../../src/core/ids.ts";
import type { NoticeMessage } from "../../src/ports/notifier.ts";

export type Received = {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: string;
};
type Headers = Readonly<Record<string, string>>;

export type Receiver = AsyncDisposable & { readonly port: number; readonly url: string };
export type HttpReceiver = Receiver & { readonly received: readonly Received[] };

/** Keeps what comes, and answers by `answer` once the whole request is there. */
export async function startReceiver(
  answer: (response: ServerResponse, request: IncomingMessage) => void,
  host = "127.0.0.1",
): Promise<HttpReceiver> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => {
      body += chunk;
    });
    request.on("end", () => {
      received.push({ method: request.method ?? "", url: request.url ?? "", headers: plain(request.headers), body });
      answer(response, request);
    });
  });
  return { ...(await listening(server, host)), received };
}

/** Answers every connection by `answer`, which may be anything but HTTP. */
export function startTcpReceiver(answer: (socket: Socket) => void): Promise<Receiver> {
  const server = createTcpServer((socket) => {
    socket.on("error", () => undefined);
    answer(socket);
  });
  return listening(server, "127.0.0.1");
}

async function listening(server: Server, host: string): Promise<Receiver> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, host, resolve));
  const address = server.address();
  const port = isAddress(address) ? address.port : 0;
  return {
    port,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}/hook`,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function isAddress(address: ReturnType<Server["address"]>): address is AddressInfo {
  return typeof address === "object" && address !== null;
}

function plain(headers: IncomingHttpHeaders): Headers {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value ?? ""].flat().join(", ")]));
}

const ULID = "01JZ0000000000000000000000";
const TASK_ID = taskIdFrom(ULID);

export const NOTICE: NoticeMessage = {
  id: `settled-${TASK_ID}-1`,
  sentAtMs: Date.now(),
  body: {
    type: "task.settled",
    timestamp: "2026-01-01T00:00:00.000Z",
    data: {
      taskId: TASK_ID,
      childThreadId: threadIdFrom(ULID),
      nodeId: nodeIdOf(TASK_ID),
      settlement: 1,
      status: "completed",
      url: "http://127.0.0.1:4517",
    },
  },
};

/** A longer object than the type says, as a careless caller could hand over. */
export function wordyNotice(words: string): NoticeMessage {
  const data = { ...NOTICE.body.data, title: words, result: words };
  const body = { ...NOTICE.body, text: words, data };
  const message = { ...NOTICE, body, detail: words };
  return message;
}
