/**
 * What everything else rests on: the right Node runs the scripts, versions are pinned, the lock file is portable, and
 * the program tells an old Node so.
 */

import { existsSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT, runNode, scratch } from "./scratch.ts";

const manifest = json("package.json");
const lock = json("package-lock.json");
type Locked = {
  readonly version?: string;
  readonly resolved?: string;
  readonly dependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
};
const packages: Record<string, Locked> = lock.packages;

describe("the running Node", () => {
  it("is new enough for the daemon", () => {
    const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
    expect(manifest.engines.node).toBe(">=22.19");
    expect(major > 22 || (major === 22 && minor >= 19)).toBe(true);
  });

  it("is the pinned one wherever npm could install it", () => {
    const installed = existsSync(path.join(ROOT, "node_modules", "node", "bin", "node"));
    expect(process.version).toBe(installed ? `v${manifest.devDependencies.node}` : process.version);
    expect(packages["node_modules/node"]?.version).toBe(manifest.devDependencies.node);
    expect(manifest.allowScripts).toEqual({ node: true });
  });
});

describe("the dependencies", () => {
  it("are pinned to exact versions, the same ones in the lock file", () => {
    const pins = Object.entries<string>({ ...manifest.dependencies, ...manifest.devDependencies });
    expect(pins.length).toBeGreaterThan(20);
    expect(pins.filter(([, pin]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(pin))).toEqual([]);
    expect(pins.filter(([name, pin]) => packages[`node_modules/${name}`]?.version !== pin)).toEqual([]);
  });

  it("are all in the lock file, optional ones too, or a clean install would be refused", () => {
    const locked = new Set(
      Object.keys(packages).map((key) => key.slice(key.lastIndexOf("node_modules/") + "node_modules/".length)),
    );
    const wanted = Object.values(packages).flatMap((entry) =>
      Object.keys({ ...entry.dependencies, ...entry.optionalDependencies }),
    );
    expect(wanted.length).toBeGreaterThan(300);
    expect([...new Set(wanted)].filter((name) => !locked.has(name))).toEqual([]);
  });

  it("come from whatever registry the user has: the lock file names no host", () => {
    expect(lock.lockfileVersion).toBe(3);
    expect(Object.keys(packages).length).toBeGreaterThan(100);
    expect(Object.entries(packages).filter(([, entry]) => entry.resolved !== undefined)).toEqual([]);
  });
});

describe("the program", () => {
  for (const version of ["18.20.8", "20.20.2", "22.18.0"]) {
    it(`tells Node ${version} in one line that it is too old, and exits with 2`, async () => {
      using tree = scratch();
      const ran = await runNode(["--import", pretend(version), path.join(ROOT, "bin", "delegate-mcp.js")], tree.dir);
      expect(ran.code).toBe(2);
      expect(ran.stdout).toBe("");
      expect(ran.stderr).toMatch(/^delegate-mcp needs Node 22\.19 or newer; this is v\S+ at \S+\n$/);
    });
  }

  for (const version of ["22.19.0", "24.0.0", "26.1.0"]) {
    it(`starts on Node ${version}`, async () => {
      using tree = scratch({ "package.json": '{ "type": "module" }', "dist/cli/run.js": 'console.log("started");\n' });
      tree.write({ "bin/delegate-mcp.js": readFileSync(path.join(ROOT, "bin", "delegate-mcp.js"), "utf8") });
      const ran = await runNode(["--import", pretend(version), "bin/delegate-mcp.js"], tree.dir);
      expect(ran).toEqual({ code: 0, stdout: "started\n", stderr: "" });
    });
  }

  it("starts through a link, as package managers install it", async () => {
    using tree = scratch({
      "app/package.json": '{ "type": "module" }',
      "app/dist/cli/run.js": 'console.log("started");\n',
    });
    tree.write({ "app/bin/delegate-mcp.js": readFileSync(path.join(ROOT, "bin", "delegate-mcp.js"), "utf8") });
    symlinkSync("app/bin/delegate-mcp.js", path.join(tree.dir, "delegate-mcp"));
    expect(await runNode(["delegate-mcp"], tree.dir)).toEqual({ code: 0, stdout: "started\n", stderr: "" });
  });
});

/** A module for `--import` that makes the running Node call itself by another version. */
function pretend(node: string): string {
  const script = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${node}" } });`;
  return `data:text/javascript,${encodeURIComponent(script)}`;
}

function json(name: string): ReturnType<typeof JSON.parse> {
  return JSON.parse(readFileSync(path.join(ROOT, name), "utf8"));
}
