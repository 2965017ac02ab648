/**
 * Values that must never appear in clear: they are masked wherever they turn up in the log and in what children write (X2, X4).
 *
 * Invariant: of what agents are given by name, only values that are secrets by their name or by their looks: masking a path or
 * a model's name would spoil what children report.
 * Absent on purpose: the tokens of other callers, which nobody here knows in clear.
 */

import type { LoadedConfig } from "./load-config.ts";
import { readTokenFile } from "./tokens.ts";

/**
 * The first token, a token in the environment, the secrets among the variables that agents are given, the keys of models, and
 * the secrets that sign webhooks.
 */
export function knownSecrets({ config, environment }: LoadedConfig): readonly string[] {
  const own = readTokenFile(config.dataDir);
  const given = Object.values(config.agents).flatMap((agent) => agent.env ?? []);
  const signing = config.notify.flatMap((target) => ("secretEnv" in target ? [target.secretEnv] : []));
  const keys = Object.values(config.agents).flatMap(({ apiKeyEnv }) => apiKeyEnv ?? []);
  const values = [
    ...(own.kind === "read" && own.token !== null ? [own.token] : []),
    ...["DELEGATE_MCP_TOKEN", ...signing, ...keys].map((name) => environment[name] ?? ""),
    ...given.flatMap((name) => secretsIn(name, environment[name] ?? "")),
  ];
  return [...new Set(values)].filter((value) => value !== "");
}

/** What of a variable is secret: nothing, its whole value, and with an address also the password in it. */
export function secretsIn(name: string, value: string): readonly string[] {
  const passwords = passwordsIn(value);
  const isSecret = passwords.length > 0 || isSecretName(name) || looksRandom(value);
  return isSecret ? [value, ...passwords] : [];
}

const SECRET_WORDS = new Set(
  [
    "key keys apikey apikeys token tokens secret secrets password passwords passwd passphrase pass pwd pin otp",
    "credential credentials creds auth authorization bearer cookie cookies session private jwt pat dsn connectionstring",
  ].flatMap((line) => line.split(" ")),
);
/** Written together, as in `GITHUBTOKEN`. */
const SECRET_ENDING = /(?:token|secret|password|passwd|passphrase|credential|apikey|privatekey)s?$/;
/** The variable says where a secret is kept; that place may be told. */
const PLACE_WORDS = new Set(["file", "path", "dir", "directory", "folder", "sock", "socket", "home"]);

function isSecretName(name: string): boolean {
  const words = name
    .replace(/([a-z0-9])(?=[A-Z])/g, "$1_")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  if (PLACE_WORDS.has(words.at(-1) ?? "")) return false;
  if (/connection_?string|conn_?str$/.test(words.join("_"))) return true;
  return words.some((word) => SECRET_WORDS.has(word) || SECRET_ENDING.test(word));
}

/** Passwords in addresses (`scheme://user:password@host`) and in lists of settings (`host=x password=y`). */
function passwordsIn(value: string): readonly string[] {
  const [, inUrl] = /^[a-z][a-z0-9+.-]{0,40}:\/\/[^/?#\s@]{0,2000}?:([^/?#\s]{1,2000})@/i.exec(value) ?? [];
  const inList = value.matchAll(
    /(?:^|[\s;&?])(?:password|passwd|pwd|secret|token|api_?key|sharedaccesskey)=([^\s;&]+)/gi,
  );
  const found = [...(inUrl === undefined ? [] : [inUrl]), ...Array.from(inList, ([, password = ""]) => password)];
  return found.flatMap((password) => [password, decoded(password)]);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const RANDOM_CHARACTERS_MIN = 20;
/** Letters, capitals and digits follow one another in random text far more often than in names and dates. */
const RANDOM_CHANGES_MIN = 0.2;

function looksRandom(value: string): boolean {
  if (value.length < RANDOM_CHARACTERS_MIN || /[\s/\\]/.test(value)) return false;
  if (!/\p{L}/u.test(value) || !/\p{N}/u.test(value)) return false;
  const kinds = Array.from(value.replace(/[^\p{L}\p{N}]/gu, ""), kindOf);
  const changes = kinds.filter((kind, at) => at > 0 && kind !== kinds[at - 1]).length;
  return changes >= kinds.length * RANDOM_CHANGES_MIN;
}

function kindOf(character: string): "digit" | "capital" | "letter" {
  if (/\p{N}/u.test(character)) return "digit";
  return /\p{Lu}/u.test(character) ? "capital" : "letter";
}
