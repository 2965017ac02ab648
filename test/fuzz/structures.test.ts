/** Parsers of what has a structure: JSON-RPC, arguments of tools, configuration, frames of the guard. */

// `fuzz` and `fuzzLong` are test blocks.
/* oxlint-disable vitest/no-standalone-expect */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect } from "vitest";
import { loadConfig } from "../../src/config/load-config.ts";
import { describeProblem } from "../../src/config/problem.ts";
import { SETTINGS } from "../../src/config/schema.ts";
import { fingerprintFields } from "../../src/core/receipt.ts";
import { decodePayload, encodePayload } from "../../src/guard/guard-codec.ts";
import {
  createFrameReader,
  FRAME_BYTES_MAX,
  type Frame,
  frameHeader,
  numberIn,
  numberPayload,
} from "../../src/guard/guard-protocol.ts";
import { progressTokenOf } from "../../src/mcp/call-request.ts";
import { eraOf } from "../../src/mcp/era.ts";
import { metaOf } from "../../src/mcp/exchange.ts";
import {
  echoableId,
  isNotification,
  isRecord,
  isRequest,
  isResponse,
  isRpcId,
  withNext,
} from "../../src/mcp/json-rpc.ts";
import { clientInfoOf } from "../../src/mcp/session-id.ts";
import {
  ACK,
  AGENTS,
  ANSWER,
  type ArgumentReader,
  CANCEL,
  CONTINUE,
  createArgumentReader,
  DELEGATE,
  fieldsAsSent,
  keyAsSent,
  LIST,
  READ,
  STATUS,
  WAIT,
} from "../../src/mcp/wire.ts";
import { fuzz, fuzzLong, nearby } from "../support/fuzz.ts";
import { parsed } from "../support/json.ts";
import { ARGUMENTS, BODIES, CONFIGS } from "./corpus/messages.ts";
import { HEADERS } from "./corpus/texts.ts";

/** JSON as a peer could send it, names that bite included. */
const BITING = ["__proto__", "constructor", "toString", "hasOwnProperty", "jsonrpc", "id", "method", "params", "_meta"];
const json = (names: readonly string[]): fc.Arbitrary<unknown> =>
  fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      fc.oneof(
        fc.string({ unit: "binary" }),
        fc.constantFrom(...names),
        fc.double(),
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
      ),
      fc.array(tie("value"), { maxLength: 5 }),
      fc
        .array(fc.tuple(fc.oneof(fc.constantFrom(...names), fc.string({ maxLength: 10 })), tie("value")), {
          maxLength: 6,
        })
        .map((entries) =>
          JSON.parse(`{${entries.map(([name, one]) => `${JSON.stringify(name)}:${JSON.stringify(one)}`).join(",")}}`),
        ),
    ),
  })).value;

function readMessage(body: unknown): void {
  const kinds = [isRequest(body), isNotification(body), isResponse(body)].filter(Boolean);
  expect(kinds.length).toBeLessThanOrEqual(1);
  const id = echoableId(body);
  expect(id === null || isRpcId(id)).toBe(true);
  expect(["legacy", "modern"]).toContain(eraOf({ headers: {}, body }));
  expect(["legacy", "modern"]).toContain(eraOf({ headers: { "mcp-protocol-version": String(id) }, body }));
  const meta = metaOf(body);
  expect(meta === undefined || isRecord(meta)).toBe(true);
  progressTokenOf(body);
  const client = clientInfoOf(body);
  if (client !== null) expect(client.name.length).toBeLessThanOrEqual(64);
  if (isRecord(body)) expect(isRecord(withNext(body).data.next)).toBe(true);
}

describe("the body of a request", () => {
  fuzz("is one kind of message or none, from bytes", nearby(BODIES), (text) => readMessage(parsed(text)), BODIES);
  fuzz(
    "is one kind of message or none, from any JSON",
    json([...BITING, "2.0", "tools/call", "initialize"]),
    readMessage,
  );
});

const SCHEMAS = { DELEGATE, CONTINUE, WAIT, STATUS, LIST, CANCEL, ACK, ANSWER, READ, AGENTS };
const READERS: readonly (readonly [string, ArgumentReader<unknown>, readonly string[]])[] = Object.entries(SCHEMAS).map(
  ([name, schema]) => [name, createArgumentReader<unknown>(schema), Object.keys(schema.shape)],
);
const FIELDS = [...new Set(READERS.flatMap(([, , fields]) => fields))];

function readArguments(args: unknown): void {
  for (const [tool, reader, fields] of READERS) {
    const read = reader.read(args);
    if (read.kind === "invalid") {
      expect(read.problems.length, tool).toBeGreaterThan(0);
      expect(read.problems.length, tool).toBeLessThanOrEqual(8);
      for (const { field, expected } of read.problems) expect(field.length * expected.length, tool).toBeGreaterThan(0);
      continue;
    }
    // What was read was sent: nothing comes from a prototype, and nothing that was sent is passed over.
    const sent = Object.keys(Object(args ?? {})).filter((name) => Object(args)[name] !== null);
    expect(
      sent.filter((name) => !fields.includes(name)),
      tool,
    ).toEqual([]);
    expect(
      Object.keys(Object(read.request)).filter((name) => !sent.includes(name)),
      tool,
    ).toEqual([]);
  }
  expect(Object.keys(fingerprintFields(fieldsAsSent(args))).every((name) => Object.hasOwn(Object(args), name))).toBe(
    true,
  );
  const key = keyAsSent(args);
  if (key !== null) expect(key.length).toBeGreaterThanOrEqual(8);
}

describe("the arguments of a tool", () => {
  fuzz("are read or named as wrong, from bytes", nearby(ARGUMENTS), (text) => readArguments(parsed(text)), ARGUMENTS);
  fuzz(
    "are read or named as wrong, from fields of any JSON",
    fc
      .array(
        fc.tuple(fc.constantFrom(...FIELDS, ...BITING), json([...BITING, "length", "size", "valueOf", ...ARGUMENTS])),
        { maxLength: 8 },
      )
      .map((entries) =>
        JSON.parse(`{${entries.map(([name, one]) => `${JSON.stringify(name)}:${JSON.stringify(one)}`).join(",")}}`),
      ),
    readArguments,
  );
  fuzzLong("with a name of great length are named as wrong at once", [...BITING, "taskId", "- "], [], (name) => {
    readArguments({ [name]: 1, [`${name}x`]: 2 });
  });
});

const folder = mkdtempSync(path.join(tmpdir(), "fuzz-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = path.join(folder, "config.json");
const NAMES = SETTINGS.flatMap(({ key, env }) => [key, key.split(".")[0] ?? "", key.split(".").at(-1) ?? "", ...env]);

function readConfig(text: string | Uint8Array, environment: Readonly<Record<string, string>>): void {
  writeFileSync(file, text);
  const folders = { data: path.join(folder, "data"), config: folder };
  const result = loadConfig({ flags: {}, environment, envFile: null, configFile: file, cwd: folder, folders });
  if (result.kind === "loaded") return;
  expect(result.problems.length).toBeGreaterThan(0);
  for (const problem of result.problems) expect(describeProblem(problem)).not.toBe("");
}

/** Reading a file and checking all settings takes milliseconds: in a check a few are enough. */
const CONFIG_SHARE = 0.1;

describe("the configuration", () => {
  fuzz(
    "is loaded or named as wrong, from bytes",
    nearby(CONFIGS),
    (text) => readConfig(text, {}),
    CONFIGS,
    CONFIG_SHARE,
  );
  fuzz(
    "is loaded or named as wrong, from any JSON",
    json([...BITING, ...NAMES]),
    (value) => readConfig(JSON.stringify(value), {}),
    [],
    CONFIG_SHARE,
  );
  fuzz(
    "is loaded or named as wrong, from any environment",
    fc.array(fc.tuple(fc.oneof(fc.constantFrom(...NAMES), nearby(NAMES)), nearby([...CONFIGS, ...HEADERS])), {
      maxLength: 6,
    }),
    (variables) => readConfig("{}", Object.fromEntries(variables)),
    [],
    CONFIG_SHARE,
  );
  fuzzLong("with a name of great length is named as wrong at once", ["a", "server.", "DELEGATE_MCP_"], [], (name) => {
    readConfig(JSON.stringify({ [name]: 1, server: { [name]: 1 } }), { [`DELEGATE_MCP_${name}`]: "1" });
  });
});

const frame = fc.record({
  type: fc.integer({ min: 0, max: 255 }),
  channel: fc.integer({ min: 0, max: 0xffff_ffff }),
  payload: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
});

/** What comes out of the bytes when they arrive in these pieces; null: a frame was malformed. */
function framesOf(bytes: Buffer, sizes: readonly number[]): readonly Frame[] | null {
  const frames: Frame[] = [];
  const read = createFrameReader((one) => void frames.push({ ...one, payload: Buffer.from(one.payload) }));
  let from = 0;
  for (let turn = 0; from < bytes.length; turn += 1) {
    const size = sizes.length === 0 ? bytes.length : Math.max(1, sizes[turn % sizes.length] ?? 1);
    if (!read(bytes.subarray(from, from + size))) return null;
    from += size;
  }
  return frames;
}

const sizes = fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 6 });

describe("the frames of the guard", () => {
  fuzz(
    "come out as they went in, however they are divided",
    fc.tuple(fc.array(frame, { maxLength: 8 }), sizes),
    ([frames, pieces]) => {
      const bytes = Buffer.concat(
        frames.flatMap(({ type, channel, payload }) => [frameHeader(type, channel, payload.length), payload]),
      );
      expect(framesOf(bytes, pieces)).toEqual(frames);
    },
  );
  fuzz(
    "that are none are refused or awaited, and never thrown over",
    fc.tuple(fc.uint8Array({ maxLength: 80 }), sizes),
    ([bytes, pieces]) => {
      const given = Buffer.from(bytes);
      const frames = framesOf(given, pieces);
      const length = given.length >= 4 ? given.readUInt32BE(0) + 4 : 0;
      if (given.length >= 9 && (length < 9 || length > FRAME_BYTES_MAX)) expect(frames).toBeNull();
      for (const one of frames ?? []) expect(one.payload.length).toBeLessThanOrEqual(given.length);
      numberIn(given);
    },
  );
  fuzz(
    "carry numbers and payloads as they are",
    fc.tuple(fc.integer({ min: 0, max: 0xffff_ffff }), fc.string({ unit: "binary" })),
    ([number, text]) => {
      expect(numberIn(numberPayload(number))).toBe(number);
      const failed = { code: text.toWellFormed(), message: text.toWellFormed() };
      expect(decodePayload("spawnFailed", encodePayload("spawnFailed", failed))).toEqual(failed);
    },
  );
});
