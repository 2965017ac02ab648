/**
 * What children show to be let in: `dct_<attempt id>.<base64url HMAC-SHA256>`.
 *
 * Invariant: a token is a function of the data directory's key and the attempt, so it outlives a restart without being
 * written down anywhere, and no two attempts share one.
 * Invariant: comparing takes the same time for every token that is wrong, and no text whatever makes it throw.
 * Absent on purpose: expiry and revocation. A token says which attempt; whether that is alive is the engine's to say.
 */

import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { type AttemptId, parseAttemptId } from "../core/ids.ts";
import type { ChildCredentials } from "../ports/credentials.ts";

const PREFIX = "dct_";
const ATTEMPT = "dt_[0-9A-HJKMNP-TV-Z]{26}\\.a[1-9][0-9]{0,8}";
const TOKEN = new RegExp(`^${PREFIX}(${ATTEMPT})\\.[A-Za-z0-9_-]{43}$`);
const CHARACTERS_MAX = 128;

/**
 * Source of a RegExp that finds children's tokens anywhere in a text, for masking. One of which the end was cut off is found
 * too, as long as what is left would help to guess it.
 */
export const CHILD_TOKEN_PATTERN = `${PREFIX}${ATTEMPT}\\.[A-Za-z0-9_-]{20,43}`;

/** What all of them begin with and how long they can be, for finding them where they are encoded. */
export const CHILD_TOKEN_SHAPE = { prefix: `${PREFIX}dt_`, charactersMax: 88 } as const;

/** `sessionKey`: the data directory's. The tokens are made with a key derived from it, so they are no session ids. */
export function createChildCredentials(sessionKey: Uint8Array): ChildCredentials {
  const key = Buffer.from(hkdfSync("sha256", sessionKey, new Uint8Array(0), "child-credentials", 32));
  const tokenOf = (attemptId: AttemptId): string => {
    const mac = createHmac("sha256", key).update(`delegate-mcp child\n${attemptId}`).digest("base64url");
    return `${PREFIX}${attemptId}.${mac}`;
  };
  return {
    tokenOf,
    attemptOf(token) {
      if (token.length > CHARACTERS_MAX) return null;
      const named = parseAttemptId(TOKEN.exec(token)?.[1] ?? "");
      if (named === null) return null;
      // As texts, not as bytes: base64 has several spellings of one value, and only ours is a token.
      const shown = Buffer.from(token, "utf8");
      const ours = Buffer.from(tokenOf(named.attemptId), "utf8");
      return shown.length === ours.length && timingSafeEqual(shown, ours) ? named.attemptId : null;
    },
  };
}
