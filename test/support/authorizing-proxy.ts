/**
 * A loopback HTTP relay for clients that cannot send a token: it adds the `Authorization` header and passes everything else
 * on as it is, `Host` and `Origin` too. On request it ends an answer in good order after its first piece, as a proxy with a
 * time limit does.
 */

import { once } from "node:events";
import http from "node:http";
import { buffer } from "node:stream/consumers";
import { parsed } from "./json.ts";

export type AuthorizingProxy = AsyncDisposable & {
  /** The target's URL through the proxy. */
  readonly url: string;
};

export type AuthorizingProxyOptions = {
  /** True for a request body whose answer is ended after its first piece. */
  readonly endsEarly?: (body: unknown) => boolean;
};

export async function startAuthorizingProxy(
  target: string,
  token: string,
  { endsEarly = () => false }: AuthorizingProxyOptions = {},
): Promise<AuthorizingProxy> {
  const { port } = new URL(target);

  async function relay(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const body = await buffer(request);
    const early = endsEarly(parsed(body.toString()));
    const onward = http.request({
      host: "127.0.0.1",
      port,
      method: request.method,
      path: request.url,
      headers: { ...request.headers, authorization: `Bearer ${token}` },
    });
    response.once("close", () => onward.destroy());
    onward.once("error", () => response.destroy());
    onward.once("response", (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      if (early) answer.once("data", (piece: Buffer) => response.end(piece));
      else answer.pipe(response);
      answer.once("error", () => response.destroy());
    });
    onward.end(body);
  }

  const server = http.createServer((request, response) => {
    relay(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the proxy has no port");
  const url = new URL(target);
  url.port = String(address.port);
  return {
    url: url.href,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
