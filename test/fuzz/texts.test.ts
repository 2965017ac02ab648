/** Parsers of single texts: ids, marks, tokens, cursors, headers, the socket table, and the sanitiser. */

// `fuzz` and `fuzzLong` are test blocks.
/* oxlint-disable vitest/no-standalone-expect */

import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect } from "vitest";
import { createChildCredentials } from "../../src/config/child-credentials.ts";
import { secretsIn } from "../../src/config/known-secrets.ts";
import { packAfter, readAfter } from "../../src/core/after.ts";
import {
  attemptIdOf,
  markOf,
  nodeIdOf,
  parseAttemptId,
  parseId,
  parseMark,
  taskIdFrom,
  taskIdPrefixOf,
  threadIdFrom,
} from "../../src/core/ids.ts";
import { sanitise, sanitiseLine, sanitiseShort, sizeInJson } from "../../src/core/sanitise.ts";
import { logCursor, readLogCursor, readTextCursor, textCursor } from "../../src/engine/thread-cursor.ts";
import { plainAddress, socketRows } from "../../src/guard/socket-table.ts";
import { hasTokenInUrl } from "../../src/http/auth.ts";
import { createHostOriginGuard } from "../../src/http/host-origin.ts";
import { askedWaitMs, timeLimitMs } from "../../src/mcp/budget.ts";
import { createResumeIds } from "../../src/mcp/resume-id.ts";
import { createSessionIds } from "../../src/mcp/session-id.ts";
import { createTokenSigner } from "../../src/mcp/signed-token.ts";
import { fuzz, fuzzLong, nearby } from "../support/fuzz.ts";
import { AFTERS, BAITS, CURSORS, HEADERS, IDS, SOCKET_TABLES } from "./corpus/texts.ts";

const ulid = fc.string({
  unit: fc.constantFrom(...Array.from("0123456789ABCDEFGHJKMNPQRSTVWXYZ")),
  minLength: 26,
  maxLength: 26,
});
const KEY = Buffer.alloc(32, 3);

function readIds(text: string): void {
  const parsed = parseId(text);
  if (parsed.kind === "task") expect([parsed.taskId, nodeIdOf(parsed.taskId)]).toContain(text);
  if (parsed.kind === "thread") expect(parsed.threadId).toBe(text);
  const attempt = parseAttemptId(text);
  if (attempt !== null) expect(attemptIdOf(attempt.taskId, attempt.epoch)).toBe(text);
  const mark = parseMark(text);
  if (mark !== null) expect(markOf(mark.daemonId, mark.attemptId)).toBe(text);
  expect(taskIdPrefixOf(text) ?? "dt_0").toMatch(/^dt_[0-9A-Z]{1,26}$/);
}

describe("ids, marks and attempts", () => {
  fuzz("read as ours only if they are exactly ours", nearby(IDS), readIds, IDS);
  fuzz("are read back as they were made", fc.tuple(ulid, fc.integer({ min: 1, max: 999_999_999 })), ([made, epoch]) => {
    const taskId = taskIdFrom(made);
    expect(parseId(taskId)).toEqual({ kind: "task", taskId });
    expect(parseId(nodeIdOf(taskId))).toEqual({ kind: "task", taskId });
    expect(parseId(threadIdFrom(made)).kind).toBe("thread");
    const attemptId = attemptIdOf(taskId, epoch);
    expect(parseMark(markOf("dm_1", attemptId))).toEqual({ daemonId: "dm_1", attemptId, taskId, epoch });
  });
  fuzzLong("take linear time", BAITS, IDS, readIds);
});

function readAnyAfter(text: string): void {
  const after = readAfter(text);
  for (const [short, { news, steps }] of after ?? []) {
    expect(short).toMatch(/^[0-9A-Z]{8}$/);
    expect(Number.isSafeInteger(news) && Number.isSafeInteger(steps)).toBe(true);
  }
}

describe("the after of a wait", () => {
  fuzz("reads as nothing or as numbers", nearby(AFTERS), readAnyAfter, AFTERS);
  fuzz(
    "is read back as it was packed",
    fc.array(fc.record({ taskId: ulid.map(taskIdFrom), news: fc.nat(999_999_999), steps: fc.nat(999_999_999) }), {
      maxLength: 50,
    }),
    (seen) => {
      const after = readAfter(packAfter(seen, "k3x9q"));
      for (const { taskId, news, steps } of new Map(seen.map((one) => [one.taskId.slice(-8), one])).values()) {
        expect(after?.get(taskId.slice(-8))).toEqual({ news, steps });
      }
    },
  );
  fuzzLong("takes linear time", BAITS, AFTERS, readAnyAfter);
});

function readCursor(text: string): void {
  for (const view of ["messages", "events"] as const) {
    const cursor = readLogCursor(view, text);
    if (cursor === null) continue;
    expect(Object.values(cursor).every((value) => Number.isSafeInteger(value) && value >= 0)).toBe(true);
    expect(readLogCursor(view, logCursor(view, cursor))).toEqual(cursor);
  }
  for (const view of ["result", "changes"] as const) {
    const from = readTextCursor(view, text);
    if (from === null) continue;
    expect(Number.isSafeInteger(from) && from >= 0).toBe(true);
    expect(readTextCursor(view, textCursor(view, from))).toBe(from);
  }
}

describe("the cursor of a page", () => {
  fuzz("reads as nothing or as numbers, and the same when it is written again", nearby(CURSORS), readCursor, CURSORS);
  fuzzLong("takes linear time", BAITS, CURSORS, readCursor);
});

describe("what is signed", () => {
  const signer = createTokenSigner(KEY, "fuzz");
  const sessions = createSessionIds(KEY);
  const resumes = createResumeIds(KEY);
  const credentials = createChildCredentials(KEY);
  const call = {
    caller: "alice",
    requestId: 1,
    tool: "task_wait",
    args: {},
    startMs: 0,
    deadlineMs: 1,
    progressToken: null,
  };
  const attempt = attemptIdOf(taskIdFrom("01M8RDENWBWY0DFWYS2QHAG06Y"), 1);
  const genuine = {
    token: signer.sign({ a: 1 }),
    session: sessions.mint({ name: "claude-code", version: "1" }),
    resume: resumes.mint(call) ?? "",
    child: credentials.tokenOf(attempt),
  };
  const all = Object.values(genuine);
  const forge = (text: string): void => {
    if (text !== genuine.token) expect(signer.open(text)).toBeUndefined();
    if (text !== genuine.session) expect(sessions.read(text)).toBeNull();
    if (text !== genuine.resume) expect(resumes.read(text, "alice", 0)).toBeNull();
    if (text !== genuine.child) expect(credentials.attemptOf(text)).toBeNull();
  };
  // A base64 text has several spellings of one value: each of the last characters' neighbours, padding, the other alphabet.
  const spellings = all.flatMap((text) => [
    ...Array.from(
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
      (last) => text.slice(0, -1) + last,
    ),
    `${text}=`,
    `${text} `,
    text.replaceAll("-", "+").replaceAll("_", "/"),
    text.replace(/.$/, "\n"),
    ` ${text}`,
  ]);

  fuzz("is accepted only exactly as it was made (P18)", nearby(all), forge, [...all, ...spellings]);
  fuzz(
    "is accepted as it was made, for nothing and nobody else",
    fc.tuple(fc.jsonValue(), fc.string(), fc.string({ minLength: 1, maxLength: 80 })),
    ([value, name, other]) => {
      const text = signer.sign(value);
      expect(signer.open(text)).toEqual(JSON.parse(JSON.stringify(value)));
      expect(createTokenSigner(KEY, "other").open(text)).toBeUndefined();
      expect(createTokenSigner(randomBytes(32), "fuzz").open(text)).toBeUndefined();
      const session = sessions.mint(name === "" ? null : { name, version: other });
      const read = sessions.read(session);
      if (session.length <= 512)
        expect(read?.client).toEqual(name === "" ? null : { name: name.toWellFormed(), version: other.toWellFormed() });
      expect(resumes.read(session, "alice", 0)).toBeNull();
      const resume = resumes.mint({ ...call, caller: name, args: { other } });
      if (resume === null) return;
      expect(resumes.read(resume, `${name}x`, 0)).toBeNull();
      expect(resumes.read(resume, name.toWellFormed(), 10 ** 12)).toBeNull();
      expect(sessions.read(resume)).toBeNull();
    },
  );
  fuzzLong("takes linear time", BAITS, all, forge);
});

const guard = createHostOriginGuard({ allowedHosts: ["box.test"], allowedOrigins: ["https://box.test"] });
const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\]|box\.test)(?::\d{1,5})?$/i;

function readHeaders(text: string): void {
  expect(guard.allowsHost(text)).toBe(LOOPBACK.test(text));
  const origin = /^https?:\/\/(.+)$/i.exec(text)?.[1] ?? "";
  if (guard.allowsOrigin(text)) expect(LOOPBACK.test(origin) || /^https:\/\/box\.test$/i.test(text)).toBe(true);
  const ms = timeLimitMs(text);
  if (ms !== null) expect(Number.isSafeInteger(ms) && ms > 0 && /^\d+$/.test(text)).toBe(true);
  const asked = askedWaitMs({ waitMs: text });
  if (asked !== null) expect(asked >= 0 && Number.isFinite(asked)).toBe(true);
  expect(hasTokenInUrl(`/mcp?${text}&token=x`)).toBe(true);
  hasTokenInUrl(text);
}

describe("headers", () => {
  fuzz(
    "name a host or an origin that is allowed only if it is one of the few (X1)",
    nearby(HEADERS),
    readHeaders,
    HEADERS,
  );
  fuzzLong("take linear time", BAITS, HEADERS, readHeaders);
});

function readTable(text: string): void {
  for (const { port, farPort, socket } of socketRows(text)) {
    expect(socket).toMatch(/^socket:\[[1-9]\d*\]$/);
    expect(Math.max(port, farPort)).toBeLessThanOrEqual(65_535);
  }
  plainAddress(text);
}

describe("the table of sockets", () => {
  fuzz("names sockets or none, however it is garbled", nearby(SOCKET_TABLES), readTable, SOCKET_TABLES);
  fuzzLong("takes linear time", BAITS, SOCKET_TABLES, readTable);
});

const HIDDEN =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]|\p{Default_Ignorable_Code_Point}/u;

function clean(text: string): void {
  const whole = sanitise(text);
  expect(HIDDEN.test(whole)).toBe(false);
  expect(whole.isWellFormed()).toBe(true);
  expect(sanitise(whole)).toBe(whole);
  expect(sanitiseLine(text, 50)).not.toMatch(/[\n\t]/);
  expect(sanitiseLine(text, 50).length).toBeLessThanOrEqual(50);
  expect(sizeInJson(sanitiseShort(text, 60))).toBeLessThanOrEqual(60);
}

describe("the sanitiser", () => {
  fuzz(
    "leaves nothing that is not seen, and is done after one time (P17)",
    nearby([...BAITS, ...HEADERS]),
    clean,
    BAITS,
  );
  fuzzLong("takes linear time", BAITS, [], clean);
});

describe("the look for secrets among variables", () => {
  fuzz(
    "says all of a value or nothing (X4)",
    nearby([...BAITS, "postgres://a:b@c/d", "password=x y", "a1B2".repeat(6)]),
    (text) => {
      const found = secretsIn(text, text);
      if (found.length > 0) expect(found[0]).toBe(text);
    },
  );
});
