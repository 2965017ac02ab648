/** The table of log events and the code hold each other: what is logged is in the table, what is in the table is logged. */

import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, expectTypeOf, it } from "vitest";
import { LOG_EVENTS, type LogEvent } from "../../src/core/log-events.ts";
import type { Log } from "../../src/ports/log.ts";

const SRC = path.join(import.meta.dirname, "../../src");

describe("log events", () => {
  it("are a closed list: a name that is not in the table does not compile", () => {
    expectTypeOf<Parameters<Log["debug" | "info" | "warn" | "error"]>[0]>().toEqualTypeOf<LogEvent>();
    type Closed = "no_such_event" extends LogEvent ? never : "guard_started" extends LogEvent ? true : never;
    const closed: Closed = true;
    expect(closed).toBe(true);
  });

  it("are all used", () => {
    const code = globSync("**/*.ts", { cwd: SRC })
      .filter((file) => file !== path.join("core", "log-events.ts"))
      .map((file) => readFileSync(path.join(SRC, file), "utf8"))
      .join("\n");
    expect(code).toContain("log.");
    expect(Object.keys(LOG_EVENTS).filter((name) => !code.includes(`"${name}"`))).toEqual([]);
  });

  it("are named in snake case, in the order of the alphabet, each with a meaning of its own", () => {
    const names = Object.keys(LOG_EVENTS);
    expect(names.filter((name) => !/^[a-z]+(_[a-z]+)*$/.test(name))).toEqual([]);
    expect(names).toEqual(names.toSorted());
    expect(new Set(Object.values(LOG_EVENTS)).size).toBe(names.length);
  });
});
