/**
 * The generated pages say what the schema says.
 */

import path from "node:path";
import { parseEnv } from "node:util";
import { describe, expect, it } from "vitest";
import { makeConfigurationTable, makeEnvExample } from "../../src/config/env-example.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { FOUND_AT_START, SETTINGS } from "../../src/config/schema.ts";
import { scratch } from "../tooling/scratch.ts";

const assignments = makeEnvExample()
  .split("\n")
  .filter((line) => /^#[A-Z_]+=/.test(line))
  .map((line) => line.slice(1));

describe(".env.example", () => {
  it("changes nothing when it is copied as it is", () => {
    expect(parseEnv(makeEnvExample())).toEqual({});
  });

  it("parses back to the defaults, line by line and all at once", () => {
    using folder = scratch();
    const load = (envFile: string) => {
      folder.write({ "some.env": envFile });
      const folders = { data: path.join(folder.dir, "data"), config: path.join(folder.dir, "none") };
      const result = loadConfig({
        flags: {},
        environment: {},
        envFile: "some.env",
        configFile: null,
        cwd: folder.dir,
        folders,
      });
      return result.kind === "loaded" ? result.loaded : expect.unreachable(JSON.stringify(result.problems));
    };
    const defaults = load("").config;
    for (const line of assignments) expect(load(line).config).toEqual(defaults);
    const all = load(assignments.join("\n"));
    expect(all.config).toEqual(defaults);
    const fromFile = Object.entries(all.origins).filter(([, origin]) => origin.kind === "environment");
    expect(fromFile).toHaveLength(SETTINGS.length - Object.keys(FOUND_AT_START).length);
  });

  it("names every setting once", () => {
    const names = assignments.map((line) => line.slice(0, line.indexOf("=")));
    expect(new Set(names).size).toBe(names.length);
    for (const setting of SETTINGS) expect(names).toContain(setting.env[0]);
  });

  it("keeps its lines short enough to read", () => {
    for (const line of makeEnvExample().split("\n")) expect(line.length).toBeLessThanOrEqual(100);
  });
});

describe("table of settings", () => {
  it("has a row for every setting with its variables, its default and a meaning", () => {
    const rows = makeConfigurationTable().split("\n");
    for (const setting of SETTINGS) {
      const row = rows.find((line) => line.startsWith(`| \`${setting.key}\` |`));
      for (const name of setting.env) expect(row).toContain(`\`${name}\``);
      expect(row?.split(" | ")).toHaveLength(4);
      expect(setting.docs).toMatch(/[.)]$/);
    }
  });

  it("writes amounts so that they can be read", () => {
    const text = makeConfigurationTable();
    for (const amount of [
      "`14400000` (4 h)",
      "`16777216` (16 MiB)",
      "`60000` (1 min)",
      "`86400000` (1 d)",
      "`4517` |",
    ]) {
      expect(text).toContain(amount);
    }
  });
});
