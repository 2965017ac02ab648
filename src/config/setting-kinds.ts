/**
 * Kinds of values that settings have, each with the words for what is expected.
 */

import { isIPv4 } from "node:net";
import { z } from "zod";

/** A whole number within bounds. */
export const whole = (min: number, max: number) => z.int().min(min).max(max);
export const durationMs = (min: number, max: number) => whole(min, max);
export const absolutePath = () =>
  z
    .string()
    .regex(/^(\/|[A-Za-z]:[\\/])/)
    .max(4096)
    .meta({ expected: "an absolute path" });
/** The name of a variable that an agent may be given: never one of ours. */
export const environmentName = () =>
  z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,199}$/)
    .refine((name) => !/^DELEGATE_(MCP|CHILD)_/i.test(name), {
      error: "variables of delegate-mcp itself are never handed on",
    })
    .meta({ expected: "the name of an environment variable" });
/** A command line that no shell sees. */
export const words = () =>
  z
    .tuple([z.string().min(1).max(8192)], z.string().max(8192))
    .refine((list) => list.length <= 256, { error: "expected at most 256 words" })
    .meta({ expected: 'a list of words, such as ["my-agent", "--quiet"] (no shell is involved)' });
/** A record by name, at most 64 entries. */
export const named = <Entry extends z.ZodType>(entry: Entry, what: string) =>
  z
    .record(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._ -]{0,63}$/), entry)
    .refine((entries) => Object.keys(entries).length <= 64, { error: "at most 64 entries" })
    .meta({ expected: what });

/** What a browser calls the origin of a page: scheme, host and port. */
export const origin = () =>
  z
    .string()
    .refine(isOrigin, { error: 'expected an origin such as "https://tasks.example.org"' })
    .meta({ expected: 'an origin such as "https://tasks.example.org"' });

/** Where a webhook may go. */
export const webhookUrl = () =>
  z
    .url()
    .refine(isHttpsOrLoopback, { error: "expected an https URL, or http to a loopback address" })
    .refine((text) => !holdsLogin(text), {
      error: "expected a URL without a user or password; messages are signed with the secret that secretEnv names",
    });

/** Where a provider's API is. */
export const providerUrl = () =>
  z
    .url()
    .max(2_000)
    .refine(isHttpsOrLoopback, { error: "expected an https URL, or http to a loopback address" })
    .refine((text) => !holdsLogin(text) && !/[?#]/.test(text), {
      error:
        "expected a URL without user, password, query or fragment; the key is in the variable that apiKeyEnv names",
    });

/** True for what can be sent as an API key in a header. */
export function isApiKey(key: string): boolean {
  return /^[\x21-\x7e]{1,4096}$/.test(key);
}

export function isLoopbackUrl(text: string): boolean {
  return URL.canParse(text) && isLoopback(new URL(text).hostname);
}

/** True for what can sign webhooks: `whsec_` and base64 of at least 16 bytes, or a text of at least 16 characters. */
export function isWebhookSecret(secret: string): boolean {
  const [, encoded] = /^whsec_(.*)$/s.exec(secret) ?? [];
  if (encoded === undefined) return secret.length >= 16;
  const key = Buffer.from(encoded, "base64");
  return key.length >= 16 && key.toString("base64") === encoded;
}

/** True for names and addresses that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));
}

function isHttpsOrLoopback(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname));
}

function holdsLogin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username !== "" || password !== "";
}

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}
