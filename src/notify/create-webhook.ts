/**
 * A receiver by HTTP, told as Standard Webhooks say: https://www.standardwebhooks.com
 *
 * Invariant: one POST a delivery, signed, to the operator's URL alone; a redirect is an answer like any other and never
 * followed, so neither body nor signature reaches a place that the operator did not name.
 * Invariant: plain http stays on this machine whatever a resolver says.
 * Invariant: the answer's status counts; its body is thrown away, and time and size of it are bounded.
 * Absent on purpose: kept connections. Notices are rare, and nothing is left to close when the daemon stops. And proxies.
 */

import { createHmac } from "node:crypto";
import type { LookupFunction } from "node:net";
import type { Clock } from "../ports/clock.ts";
import type { NoticeMessage, NoticeOutcome, Notifier } from "../ports/notifier.ts";
import { again, codeOf, DELIVERED, DELIVERY_MS, noticeJson, targetName } from "./notice.ts";

export type WebhookOptions = {
  /** Already checked: https, or http to a loopback address; without a user or password. */
  readonly url: string;
  /** `whsec_` and base64, or any text, whose bytes are then the key. */
  readonly secret: string;
  readonly clock: Clock;
  readonly timeoutMs?: number;
};

const ANSWER_BYTES_MAX = 64 * 1024;
const SECRET_PREFIX = "whsec_";

export function createWebhook(options: WebhookOptions): Notifier {
  const key = keyOf(options.secret);
  const { url, clock, timeoutMs = DELIVERY_MS } = options;
  return {
    name: targetName("webhook", url),
    async deliver(message) {
      const aborter = new AbortController();
      using _timer = clock.after(timeoutMs, () => aborter.abort());
      try {
        return outcomeOf(await post(url, signedRequest(key, message), aborter.signal));
      } catch (error) {
        if (aborter.signal.aborted) return again(`the receiver did not answer within ${timeoutMs / 1_000} s`);
        return again(`the receiver was not reached (${codeOf(error)})`);
      }
    },
  };
}

type SignedRequest = { readonly body: string; readonly headers: Readonly<Record<string, string>> };

function signedRequest(key: Buffer, message: NoticeMessage): SignedRequest {
  const body = noticeJson(message.body);
  const seconds = Math.floor(message.sentAtMs / 1_000);
  const mac = createHmac("sha256", key).update(`${message.id}.${seconds}.${body}`).digest("base64");
  return {
    body,
    headers: {
      "content-type": "application/json",
      "user-agent": "delegate-mcp",
      "webhook-id": message.id,
      "webhook-timestamp": String(seconds),
      "webhook-signature": `v1,${mac}`,
    },
  };
}

/** The status of the answer. Rejects if there is none before `signal`. */
async function post(url: string, { body, headers }: SignedRequest, signal: AbortSignal): Promise<number> {
  // Loaded when there is something to tell: most daemons start without.
  const { Agent, request } = await import("undici");
  const agent = new Agent({ connect: url.startsWith("http:") ? { lookup: lookUpLoopback } : {} });
  try {
    const answer = await request(url, { method: "POST", dispatcher: agent, headers: { ...headers }, body, signal });
    // Read a little of it so that an ordinary receiver can finish; what it says or how it breaks off changes nothing.
    await answer.body.dump({ limit: ANSWER_BYTES_MAX, signal }).catch(() => undefined);
    return answer.statusCode;
  } finally {
    agent.destroy().catch(() => undefined);
  }
}

function outcomeOf(status: number): NoticeOutcome {
  if (status >= 200 && status < 300) return DELIVERED;
  if (status === 410) return { kind: "refused", reason: "HTTP 410: the receiver wants no notices any more" };
  if (status >= 300 && status < 400) return again(`HTTP ${status}: redirects are not followed`);
  return again(`HTTP ${status}`);
}

/** Every name of a plain http URL, which is `localhost`, is this machine. */
const lookUpLoopback: LookupFunction = (_hostname, { all }, callback) => {
  if (all !== true) return callback(null, "127.0.0.1", 4);
  callback(null, [
    { address: "127.0.0.1", family: 4 },
    { address: "::1", family: 6 },
  ]);
};

function keyOf(secret: string): Buffer {
  return secret.startsWith(SECRET_PREFIX)
    ? Buffer.from(secret.slice(SECRET_PREFIX.length), "base64")
    : Buffer.from(secret, "utf8");
}
