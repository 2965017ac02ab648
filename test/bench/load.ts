/**
 * Load from this process on a server in another: a bounded number of calls over a bounded number of connections.
 *
 * Invariant: every answer is looked at; one that is not what was expected ends the bench, so that no figure is ever that
 * of an error.
 */

import { Pool } from "undici";
import type { Call } from "./wire.ts";

export type Load = AsyncDisposable & {
  /** Sends `count` calls, as many at a time as there are connections. `callAt` makes the nth call of all. */
  drive(count: number, callAt: (n: number) => Call, expected: string): Promise<void>;
  /** Sends one call and gives the text of its answer. */
  send(call: Call): Promise<string>;
};

const CONNECTIONS = 16;
const CALL_MAX_MS = 60_000;

export function openLoad(url: URL): Load {
  const pool = new Pool(url.origin, {
    connections: CONNECTIONS,
    headersTimeout: CALL_MAX_MS,
    bodyTimeout: CALL_MAX_MS,
  });
  let sent = 0;

  async function send({ headers, body }: Call): Promise<string> {
    const response = await pool.request({ path: url.pathname, method: "POST", headers, body });
    const text = await response.body.text();
    if (response.statusCode !== 200) throw new Error(`answered with ${response.statusCode}: ${text.slice(0, 500)}`);
    return text;
  }

  return {
    send,
    async drive(count, callAt, expected) {
      const last = sent + count;
      const lane = async (): Promise<void> => {
        while (sent < last) {
          sent += 1;
          const text = await send(callAt(sent));
          if (!text.includes(expected)) throw new Error(`no ${expected} in: ${text.slice(0, 1_000)}`);
        }
      };
      await Promise.all(Array.from({ length: CONNECTIONS }, lane));
    },
    [Symbol.asyncDispose]: () => pool.destroy(),
  };
}
