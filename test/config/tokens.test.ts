/**
 * Tokens and the other private files of the data directory, on a real file system and between real processes.
 */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import {
  openDaemonId,
  openSessionKey,
  readDaemonFile,
  removeDaemonFile,
  writeDaemonFile,
} from "../../src/config/daemon-files.ts";
import type { DataDirRefusal } from "../../src/config/private-files.ts";
import { administerTokens, openTokens, readTokenFile, type TokenStore } from "../../src/config/tokens.ts";
import { ROOT, scratch } from "../tooling/scratch.ts";

const modeOf = (file: string): string => (statSync(file).mode & 0o777).toString(8);

async function opened(dataDir: string): Promise<TokenStore> {
  const result = await openTokens(dataDir);
  if (result.kind === "refused") expect.unreachable(result.message);
  return result.tokens;
}

function fileToken(dataDir: string): string {
  return readFileSync(path.join(dataDir, "token"), "utf8").trim();
}

async function added(tokens: TokenStore, name: string): Promise<string> {
  const result = await tokens.add(name, ["read", "delegate"]);
  return result.kind === "added" ? result.token : expect.unreachable(result.message);
}

describe("first start", () => {
  it("makes one token with every scope in a file that holds it and a line end, nothing else", async () => {
    using folder = scratch();
    const dataDir = path.join(folder.dir, "data");
    const tokens = await opened(dataDir);
    expect(readFileSync(path.join(dataDir, "token"), "utf8")).toMatch(/^dmcp_[A-Za-z0-9_-]{43}\n$/);
    expect(tokens.authenticate(fileToken(dataDir))).toMatchObject({
      kind: "known",
      name: "default",
      scopes: ["read", "delegate", "admin"],
    });
    expect(tokens.list()).toHaveLength(1);
  });

  it("keeps that token over later starts", async () => {
    using folder = scratch();
    await opened(folder.dir);
    const token = fileToken(folder.dir);
    const tokens = await opened(folder.dir);
    expect([fileToken(folder.dir), tokens.list().length]).toEqual([token, 1]);
  });

  it("writes every file with mode 0600 into a directory with 0700, whatever the umask (X3)", () => {
    using folder = scratch();
    const dataDir = path.join(folder.dir, "data");
    const program = `
      process.umask(0);
      const { openTokens } = await import(${JSON.stringify(path.join(ROOT, "src/config/tokens.ts"))});
      const { openDaemonId, openSessionKey, writeDaemonFile } = await import(${JSON.stringify(path.join(ROOT, "src/config/daemon-files.ts"))});
      const dir = ${JSON.stringify(dataDir)};
      const { tokens } = await openTokens(dir);
      await tokens.add("second", ["read"]);
      openDaemonId(dir);
      openSessionKey(dir);
      writeDaemonFile(dir, { pid: 1, url: "http://127.0.0.1:1", mcpUrl: "http://127.0.0.1:1/mcp", version: "1", startedAt: "x" });`;
    execFileSync(process.execPath, ["--no-warnings", "--input-type=module", "-e", program]);
    expect(modeOf(dataDir)).toBe("700");
    const files = readdirSync(dataDir).sort();
    expect(files).toEqual(["daemon-id", "daemon.json", "session.key", "token", "tokens.json"]);
    for (const file of files) expect([file, modeOf(path.join(dataDir, file))]).toEqual([file, "600"]);
  });

  it("takes in a token file left by a start that died before it was registered", async () => {
    using folder = scratch();
    await opened(folder.dir);
    rmSync(path.join(folder.dir, "tokens.json"));
    const tokens = await opened(folder.dir);
    expect(tokens.authenticate(fileToken(folder.dir))).toMatchObject({ kind: "known", name: "default" });
  });

  it("lets a token file that somebody put there take the place of the one before", async () => {
    using folder = scratch();
    await opened(folder.dir);
    const before = fileToken(folder.dir);
    writeFileSync(path.join(folder.dir, "token"), "a-token-of-my-own-choice-0123456789\n");
    const tokens = await opened(folder.dir);
    expect(tokens.authenticate("a-token-of-my-own-choice-0123456789")).toMatchObject({
      kind: "known",
      name: "default",
    });
    expect(tokens.authenticate(before)).toEqual({ kind: "revoked", name: "default" });
  });

  it("does not bring a revoked first token back", async () => {
    using folder = scratch();
    const tokens = await opened(folder.dir);
    const token = fileToken(folder.dir);
    await tokens.revoke("default");
    expect((await opened(folder.dir)).authenticate(token)).toEqual({ kind: "revoked", name: "default" });
    rmSync(path.join(folder.dir, "token"));
    expect((await opened(folder.dir)).list()).toEqual([]);
    expect(existsSync(path.join(folder.dir, "token"))).toBe(false);
  });
});

describe("refusals", () => {
  const refusedBy = async (dataDir: string): Promise<DataDirRefusal> => {
    const result = await openTokens(dataDir);
    return result.kind === "refused" ? result : expect.unreachable("should be refused");
  };

  it.each(["token", "tokens.json"])(
    "refuses to start when %s can be read by others, and says what to do (X3)",
    async (name) => {
      using folder = scratch();
      await opened(folder.dir);
      const file = path.join(folder.dir, name);
      chmodSync(file, 0o644);
      const refused = await refusedBy(folder.dir);
      expect(refused).toMatchObject({
        reason: "file_open",
        path: file,
        message: `${file} can be read by others (mode 0644)`,
      });
      expect(refused.fix).toContain(`chmod 600 ${file}`);
      chmodSync(file, 0o600);
      await opened(folder.dir);
    },
  );

  it("closes its own directory, and leaves one alone that holds other things (X3)", async () => {
    using folder = scratch({ "foreign/thesis.txt": "x" });
    const own = path.join(folder.dir, "own");
    await opened(own);
    openDaemonId(own);
    chmodSync(own, 0o755);
    await opened(own);
    expect(modeOf(own)).toBe("700");
    const foreign = path.join(folder.dir, "foreign");
    chmodSync(foreign, 0o755);
    expect(await refusedBy(foreign)).toMatchObject({ reason: "directory_open" });
    expect([modeOf(foreign), readdirSync(foreign)]).toEqual(["755", ["thesis.txt"]]);
  });

  it("names a directory that cannot be made or written", async () => {
    using folder = scratch({ file: "x" });
    expect(await refusedBy(path.join(folder.dir, "file/below"))).toMatchObject({ reason: "directory_unusable" });
  });

  it.each([
    ["token", "two words that are no token\n"],
    ["tokens.json", "{"],
    ["tokens.json", '{"tokens":[{"id":1}]}'],
  ])("refuses a %s that it did not write: %s", async (name, content) => {
    using folder = scratch();
    await opened(folder.dir);
    writeFileSync(path.join(folder.dir, name), content);
    expect(await refusedBy(folder.dir)).toMatchObject({ reason: "file_malformed" });
  });
});

describe("tokens", () => {
  it("keeps hashes only, and shows a token once", async () => {
    using folder = scratch();
    const tokens = await opened(folder.dir);
    const token = await added(tokens, "codex");
    const kept = readFileSync(path.join(folder.dir, "tokens.json"), "utf8");
    expect(kept).not.toContain(token);
    expect(kept).toContain(createHash("sha256").update(token).digest("hex"));
    expect(JSON.stringify(tokens.list())).not.toContain("sha256");
  });

  it("gives several tokens of one name the same caller, and revokes one or all of them", async () => {
    using folder = scratch();
    const tokens = await opened(folder.dir);
    const [first, second, other] = [
      await added(tokens, "codex"),
      await added(tokens, "codex"),
      await added(tokens, "pi"),
    ];
    expect(tokens.authenticate(first)).toMatchObject({ kind: "known", name: "codex", scopes: ["read", "delegate"] });
    const one = tokens.authenticate(second);
    await tokens.revoke(one.kind === "known" ? one.id : "");
    expect([first, second].map((token) => tokens.authenticate(token).kind)).toEqual(["known", "revoked"]);
    await tokens.revoke("codex");
    expect([first, second, other].map((token) => tokens.authenticate(token).kind)).toEqual([
      "revoked",
      "revoked",
      "known",
    ]);
    expect(await tokens.revoke("codex")).toEqual({ kind: "revoked", tokens: [] });
  });

  it("admits neither unknown, empty nor endless texts", async () => {
    using folder = scratch();
    const tokens = await opened(folder.dir);
    const token = fileToken(folder.dir);
    for (const wrong of ["", "x", token.slice(0, -1), `${token} `, token.toUpperCase(), "x".repeat(1_000_000)]) {
      expect(tokens.authenticate(wrong)).toEqual({ kind: "unknown" });
    }
  });

  it("honours what another process adds and revokes from the next request on", async () => {
    using folder = scratch();
    const daemon = await opened(folder.dir);
    const own = fileToken(folder.dir);
    expect(daemon.authenticate(own).kind).toBe("known");
    const other = administerTokens(folder.dir);
    if (other.kind === "refused") expect.unreachable(other.message);
    const token = await added(other.tokens, "late");
    expect(daemon.authenticate(token)).toMatchObject({ kind: "known", name: "late" });
    await other.tokens.revoke("late");
    expect(daemon.authenticate(token)).toEqual({ kind: "revoked", name: "late" });
    expect(daemon.authenticate(own).kind).toBe("known");
  });

  it("admits nobody while the file is open to others, broken or gone, and everybody again after that (X3)", async () => {
    using folder = scratch();
    const tokens = await opened(folder.dir);
    const token = fileToken(folder.dir);
    const file = path.join(folder.dir, "tokens.json");
    const content = readFileSync(file);
    expect(tokens.authenticate(token).kind).toBe("known");
    chmodSync(file, 0o640);
    expect(tokens.authenticate(token).kind).toBe("unknown");
    chmodSync(file, 0o600);
    expect(tokens.authenticate(token).kind).toBe("known");
    writeFileSync(file, "{");
    expect(tokens.authenticate(token).kind).toBe("unknown");
    rmSync(file);
    expect(tokens.authenticate(token).kind).toBe("unknown");
    writeFileSync(file, content, { mode: 0o600 });
    expect(tokens.authenticate(token).kind).toBe("known");
  });

  it("loses no token when many processes add at once", async () => {
    using folder = scratch();
    await opened(folder.dir);
    const stores = Array.from({ length: 12 }, () => administerTokens(folder.dir));
    const made = await Promise.all(
      stores.map((store, index) =>
        store.kind === "opened" ? added(store.tokens, `n${index}`) : expect.unreachable(store.message),
      ),
    );
    const tokens = await opened(folder.dir);
    expect(made.map((token) => tokens.authenticate(token).kind)).toEqual(made.map(() => "known"));
    expect(readdirSync(folder.dir).sort()).toEqual(["token", "tokens.json"]);
  });

  it("takes over a lock that a dead process left, and does not take a fresh one", async () => {
    using folder = scratch();
    const tokens = await opened(folder.dir);
    const lock = path.join(folder.dir, "tokens.lock");
    writeFileSync(lock, "");
    expect(await tokens.add("a", ["read"])).toMatchObject({ kind: "refused", reason: "locked" });
    utimesSync(lock, new Date(0), new Date(0));
    expect(await tokens.add("a", ["read"])).toMatchObject({ kind: "added" });
  });

  it("remembers a bounded number of revoked tokens (P15)", async () => {
    using folder = scratch();
    const tokens = await opened(folder.dir);
    const entry = (index: number) => ({
      id: `tk_${index}`,
      name: "old",
      scopes: ["read"],
      sha256: createHash("sha256").update(`old-${index}`).digest("hex"),
      createdAt: "x",
      revokedAt: "x",
    });
    writeFileSync(
      path.join(folder.dir, "tokens.json"),
      JSON.stringify({ tokens: Array.from({ length: 500 }, (_, index) => entry(index)) }),
    );
    await added(tokens, "new");
    expect([tokens.authenticate("old-499").kind, tokens.authenticate("old-0").kind]).toEqual(["revoked", "unknown"]);
  });
});

describe("daemon files", () => {
  it("makes id and session key once", () => {
    using folder = scratch();
    const first = [openDaemonId(folder.dir), openSessionKey(folder.dir)];
    expect(first).toMatchObject([
      { kind: "opened", daemonId: expect.stringMatching(/^dm_[0-9A-HJKMNP-TV-Z]{26}$/) },
      { kind: "opened" },
    ]);
    expect([openDaemonId(folder.dir), openSessionKey(folder.dir)]).toEqual(first);
    expect(statSync(path.join(folder.dir, "session.key")).size).toBe(32);
  });

  it("refuses a key that others can read, and one that is not ours (X3)", () => {
    using folder = scratch();
    openSessionKey(folder.dir);
    chmodSync(path.join(folder.dir, "session.key"), 0o604);
    expect(openSessionKey(folder.dir)).toMatchObject({ kind: "refused", reason: "file_open" });
    writeFileSync(path.join(folder.dir, "daemon-id"), "other\n", { mode: 0o600 });
    expect(openDaemonId(folder.dir)).toMatchObject({ kind: "refused", reason: "file_malformed" });
  });

  it("removes the daemon's address only for the process that wrote it", () => {
    using folder = scratch();
    const info = {
      pid: 42,
      url: "http://127.0.0.1:4517",
      mcpUrl: "http://127.0.0.1:4517/mcp",
      version: "1.0.0",
      startedAt: "2026-01-01T00:00:00.000Z",
    };
    expect(readDaemonFile(folder.dir)).toEqual({ kind: "absent" });
    expect(writeDaemonFile(folder.dir, info)).toBeNull();
    removeDaemonFile(folder.dir, 41);
    expect(readDaemonFile(folder.dir)).toEqual({ kind: "found", info });
    removeDaemonFile(folder.dir, 42);
    expect(readDaemonFile(folder.dir)).toEqual({ kind: "absent" });
  });

  it("answers by name when the directory cannot be written", () => {
    using folder = scratch();
    const below = path.join(folder.dir, "absent");
    expect(openSessionKey(below)).toMatchObject({ kind: "refused", reason: "directory_unusable" });
    mkdirSync(below);
    expect(openSessionKey(below)).toMatchObject({ kind: "opened" });
  });

  it("reads the token file for the same user's command line, and no other's", () => {
    using folder = scratch();
    expect(readTokenFile(folder.dir)).toEqual({ kind: "read", token: null });
    writeFileSync(path.join(folder.dir, "token"), "dmcp_0123456789012345678901\n", { mode: 0o600 });
    expect(readTokenFile(folder.dir)).toEqual({ kind: "read", token: "dmcp_0123456789012345678901" });
    chmodSync(path.join(folder.dir, "token"), 0o660);
    expect(readTokenFile(folder.dir)).toMatchObject({ kind: "refused", reason: "file_open" });
  });
});
