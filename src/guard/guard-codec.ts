/**
 * JSON payloads between daemon and guard. Both ends are one build of this package: `hello` carries the version of the
 * protocol and is checked before anything else is believed, so the payloads after it are not checked field by field.
 */

import type { StopReport } from "../core/command.ts";
import type { ProcessIdentity } from "../core/task.ts";
import type { ChildEnd, SpawnSpec, StopTarget } from "../ports/children.ts";

export type Payloads = {
  readonly hello: { readonly protocol: number; readonly pid: number };
  readonly spawn: Omit<SpawnSpec, "stdin">;
  readonly started: ProcessIdentity;
  readonly spawnFailed: { readonly code: string; readonly message: string };
  readonly ended: ChildEnd;
  readonly stop: StopTarget;
  readonly stopped: StopReport;
  readonly release: { readonly mode: "stop" | "hand_over" };
};

export type PayloadName = keyof Payloads;

export function encodePayload<Name extends PayloadName>(_name: Name, value: Payloads[Name]): Buffer {
  return Buffer.from(JSON.stringify(value), "utf8");
}

export function decodePayload<Name extends PayloadName>(_name: Name, payload: Buffer): Payloads[Name] {
  return JSON.parse(payload.toString("utf8")) as Payloads[Name];
}
