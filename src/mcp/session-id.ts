/**
 * `Mcp-Session-Id` of the legacy leg: a signed note that tells later requests which client opened the conversation.
 *
 * The server keeps no session. The id carries the client's name and version (they decide how long a call is held) and a
 * nonce (it tells conversations apart and routes cancel notices). It survives a restart as long as the key does.
 *
 * Invariant: an id that is foreign, forged, damaged or absent counts as none; it is never a reason to refuse a request.
 * Invariant: it never authenticates anybody.
 */

import { randomBytes } from "node:crypto";
import { isRecord } from "./json-rpc.ts";
import { createTokenSigner } from "./signed-token.ts";
import type { ClientInfo } from "./tool.ts";

/** `client` is null if the client never said who it is. */
export type Session = { readonly client: ClientInfo | null; readonly nonce: string };

export type SessionIds = {
  /** A new id for a client that just initialised. Visible ASCII, under 300 characters. */
  mint(client: ClientInfo | null): string;
  /** What an id of ours says; null for everything else. */
  read(id: string | undefined): Session | null;
};

const NONCE_BYTES = 9;
const NAME_CHARACTERS_MAX = 64;
const ID_CHARACTERS_MAX = 512;
/** Checking a signature costs several microseconds; ids that passed lately are remembered. */
const REMEMBERED_MAX = 1_000;

export function createSessionIds(key: Buffer): SessionIds {
  const signer = createTokenSigner(key, "session");
  const remembered = new Map<string, Session>();

  return {
    mint(client) {
      const nonce = randomBytes(NONCE_BYTES).toString("base64url");
      return signer.sign({ n: client?.name ?? "", v: client?.version ?? "", s: nonce });
    },
    read(id) {
      if (id === undefined || id.length > ID_CHARACTERS_MAX) return null;
      const known = remembered.get(id);
      if (known !== undefined) return known;
      const session = sessionOf(signer.open(id));
      if (session === null) return null;
      if (remembered.size >= REMEMBERED_MAX) remembered.clear();
      remembered.set(id, session);
      return session;
    },
  };
}

/** Client name and version out of an `initialize` request or a request envelope; null if there is no usable name. */
export function clientInfoOf(value: unknown): ClientInfo | null {
  if (!isRecord(value) || typeof value["name"] !== "string" || value["name"] === "") return null;
  const version = value["version"];
  return { name: shortened(value["name"]), version: typeof version === "string" ? shortened(version) : "" };
}

function sessionOf(value: unknown): Session | null {
  if (!isRecord(value)) return null;
  const { n, v, s } = value;
  if (typeof n !== "string" || typeof v !== "string" || typeof s !== "string") return null;
  return { client: n === "" ? null : { name: n, version: v }, nonce: s };
}

/** Cut on whole characters, so the name stays valid text. */
function shortened(text: string): string {
  return text.length <= NAME_CHARACTERS_MAX ? text : text.slice(0, NAME_CHARACTERS_MAX).toWellFormed();
}
