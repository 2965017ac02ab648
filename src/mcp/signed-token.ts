/**
 * Small JSON values that we hand out and recognise again: `<base64url JSON>.<base64url HMAC-SHA256>`.
 *
 * Invariant: a token made for one purpose never passes for another (the purpose is part of what is signed).
 * Invariant: tokens are recognised without any stored state, so they outlive the process as long as the key does.
 * Absent on purpose: secrecy (the holder can read the value) and authentication (a token says nothing about who sends it).
 */

import { createHmac, timingSafeEqual } from "node:crypto";

export type TokenSigner = {
  sign(value: unknown): string;
  /** The signed value, or undefined if the token is not exactly one of ours. */
  open(token: string): unknown;
};

const MAC_CHARACTERS = 43;

export function createTokenSigner(key: Buffer, purpose: string): TokenSigner {
  const mac = (payload: string): string =>
    createHmac("sha256", key).update(`${purpose}:${payload}`).digest("base64url");
  return {
    sign(value) {
      const payload = Buffer.from(JSON.stringify(value)).toString("base64url");
      return `${payload}.${mac(payload)}`;
    },
    open(token) {
      const dot = token.length - MAC_CHARACTERS - 1;
      if (dot < 1 || token[dot] !== ".") return undefined;
      const payload = token.slice(0, dot);
      // As texts, not as bytes: base64 has several spellings of one value, and only ours is a token.
      const theirs = Buffer.from(token.slice(dot + 1), "utf8");
      const ours = Buffer.from(mac(payload), "utf8");
      if (theirs.length !== ours.length || !timingSafeEqual(theirs, ours)) return undefined;
      const value: unknown = JSON.parse(Buffer.from(payload, "base64url").toString());
      return value;
    },
  };
}
