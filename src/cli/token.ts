/**
 * `token add`, `token list` and `token revoke`: they change files of the data directory, and a running daemon follows.
 *
 * Invariant: a token is shown once, on standard output.
 */

import { SCOPES, type Scope } from "../core/caller.ts";
import { administerTokens, TOKEN_NAME, type TokenStore } from "../config/tokens.ts";
import type { Command } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { type Failure, fail, note } from "./failure.ts";
import { failureOfRefusal, findDataDir, refuseChild } from "./find-daemon.ts";
import { colorsFor, printJson, printRows } from "./print.ts";

const DEFAULT_SCOPES = "read,delegate";

export function tokenAdd(command: Command, name: string, options: { readonly scope?: string }): Promise<number> {
  return withTokens(command, async (tokens) => {
    if (!TOKEN_NAME.test(name))
      return fail(
        command.io,
        command.options,
        usage("A name is letters, digits, dots, dashes and underscores, at most 64."),
      );
    const scopes = scopesOf(options.scope ?? DEFAULT_SCOPES);
    if (scopes === null)
      return fail(
        command.io,
        command.options,
        usage(`Scopes are a list of ${SCOPES.join(", ")}, such as ${DEFAULT_SCOPES}.`),
      );
    const added = await tokens.add(name, scopes);
    if (added.kind === "refused") return fail(command.io, command.options, failureOfRefusal(added));
    if (command.options.json === true) printJson(command.io.stdout, { name, token: added.token });
    else command.io.stdout.write(`${added.token}\n`);
    note(
      command.io,
      command.options,
      `Shown this once. It makes its holder the caller ${name}, with ${scopes.join(", ")}. Revoke it: delegate-mcp token revoke ${added.info.id}`,
    );
    return EXIT.ok;
  });
}

export function tokenList(command: Command): Promise<number> {
  return withTokens(command, async (tokens) => {
    const held = tokens.list();
    if (command.options.json === true) {
      printJson(command.io.stdout, { tokens: held });
      return EXIT.ok;
    }
    if (held.length === 0)
      note(
        command.io,
        command.options,
        "No tokens. `delegate-mcp serve` makes the first one; another: delegate-mcp token add NAME",
      );
    const colors = colorsFor(command.io.stdout, command.io.env, command.options.color === false);
    const columns = [{ title: "ID" }, { title: "NAME" }, { title: "SCOPES" }, { title: "CREATED" }];
    if (held.length > 0)
      printRows(
        command.io.stdout,
        colors,
        columns,
        held.map(({ id, name, scopes, createdAt }) => [id, name, scopes.join(","), createdAt]),
      );
    return EXIT.ok;
  });
}

export function tokenRevoke(command: Command, nameOrId: string): Promise<number> {
  return withTokens(command, async (tokens) => {
    const revoked = await tokens.revoke(nameOrId);
    if (revoked.kind === "refused") return fail(command.io, command.options, failureOfRefusal(revoked));
    if (revoked.tokens.length === 0) {
      const what = `No token has the name or id ${nameOrId}.`;
      return fail(command.io, command.options, {
        kind: "failure",
        code: "unknown_token",
        exitCode: EXIT.notFound,
        what,
        why: null,
        fix: "See them: delegate-mcp token list",
      });
    }
    if (command.options.json === true) printJson(command.io.stdout, { revoked: revoked.tokens });
    else for (const { id, name } of revoked.tokens) command.io.stdout.write(`${id}\t${name}\n`);
    note(
      command.io,
      command.options,
      "Revoked. A running daemon refuses it from now on; tasks and receipts of the name stay.",
    );
    return EXIT.ok;
  });
}

async function withTokens(command: Command, work: (tokens: TokenStore) => Promise<number>): Promise<number> {
  const child = refuseChild(command.io, "`token`");
  if (child !== null) return fail(command.io, command.options, child);
  const found = findDataDir(command.io, command.options);
  if (found.kind === "failure") return fail(command.io, command.options, found);
  const opened = administerTokens(found.dataDir);
  if (opened.kind === "refused") return fail(command.io, command.options, failureOfRefusal(opened));
  return await work(opened.tokens);
}

function scopesOf(text: string): readonly Scope[] | null {
  const asked = text.split(",").map((part) => part.trim());
  const known = SCOPES.filter((scope) => asked.includes(scope));
  return known.length === new Set(asked).size ? known : null;
}

function usage(what: string): Failure {
  return {
    kind: "failure",
    code: "usage",
    exitCode: EXIT.usage,
    what,
    why: null,
    fix: "See: delegate-mcp token add --help",
  };
}
