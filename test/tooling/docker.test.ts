/**
 * The container files hold what they promise: a valid Dockerfile, a small and non-root image, a sidecar that is reached
 * from this machine alone. No engine runs here; `test/e2e/docker-stages.test.ts` runs the stages' commands without one.
 */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { validate } from "dockerfile-utils";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { SETTINGS } from "../../src/config/schema.ts";
import { environmentOf, execForm, type Stage, stagesOf } from "../support/dockerfile.ts";
import { ROOT } from "./scratch.ts";

const dockerfile = read("docker/Dockerfile");
const stages = stagesOf(dockerfile);
const image = stages.at(-1) ?? { name: null, instructions: [] };
const SETTING_NAMES = new Set(SETTINGS.flatMap((setting) => setting.env));

describe("the Dockerfile", () => {
  it("has no finding of the linter", () => {
    expect(validate(dockerfile)).toEqual([]);
    expect(validate("FROM node\nRUM x\nEXPOSE http\n")).not.toEqual([]);
  });

  it("builds in one stage and installs the packed result in another", () => {
    expect(stages.map((stage) => stage.name)).toEqual(["build", null]);
    expect(all(image, "COPY")).toEqual(["--from=build /pack/ /tmp/pack/"]);
    expect(all(image, "RUN").join("\n")).toContain("/tmp/pack/*.tgz");
  });

  it("runs on the Node that the project is developed on", () => {
    const major = JSON.parse(read("package.json")).devDependencies.node.split(".")[0];
    expect(dockerfile).toContain(`ARG NODE_IMAGE=node:${major}-bookworm-slim`);
    expect(dockerfile.match(/^FROM .*/gm)).toEqual(["FROM ${NODE_IMAGE} AS build", "FROM ${NODE_IMAGE}"]);
  });

  it("has git and an init, a user without rights, one volume, one port, a stop signal and a health check", () => {
    expect(all(image, "RUN")[0]).toMatch(/ ca-certificates git tini /);
    expect(all(image, "USER")).toEqual(["1000:1000"]);
    expect(all(image, "VOLUME").map(execForm)).toEqual([["/data"]]);
    expect(all(image, "EXPOSE")).toEqual(["4517"]);
    expect(all(image, "STOPSIGNAL")).toEqual(["SIGTERM"]);
    expect(all(image, "HEALTHCHECK")[0]).toMatch(/ CMD \["delegate-mcp", "list", "--json"\]$/);
    expect(all(image, "ENTRYPOINT").map(execForm)).toEqual([["tini", "--", "delegate-mcp"]]);
    expect(all(image, "CMD").map(execForm)).toEqual([["serve"]]);
  });

  it("gives the daemon only settings that exist, and keeps everything below the volume", () => {
    const environment = environmentOf(all(image, "ENV").join(" "));
    const ours = Object.keys(environment).filter((name) => name.startsWith("DELEGATE_MCP_"));
    expect(ours.filter((name) => !SETTING_NAMES.has(name))).toEqual([]);
    expect(environment["DELEGATE_MCP_DATA_DIR"]).toMatch(/^\/data\//);
    expect(environment["HOME"]).toMatch(/^\/data\//);
  });
});

describe("the build context", () => {
  it("holds only what is named, all of it exists, and the build needs nothing else", () => {
    const [first, ...rest] = read(".dockerignore").trim().split("\n");
    expect(first).toBe("*");
    expect(rest.filter((line) => !line.startsWith("!"))).toEqual([]);
    const named = rest.map((line) => line.slice(1));
    expect(named.filter((name) => !existsSync(path.join(ROOT, name)))).toEqual([]);
    const copied = stages.flatMap((stage) => all(stage, "COPY")).filter((text) => !text.startsWith("--from="));
    const sources = copied.flatMap((text) => text.split(" ").slice(0, -1)).filter((name) => name !== ".");
    expect(sources.filter((name) => !named.includes(name))).toEqual([]);
  });
});

describe("the compose file", () => {
  const { services, volumes } = parse(read("docker/compose.yaml"));
  const service = services["delegate-mcp"];

  it("builds this Dockerfile", () => {
    expect(existsSync(path.join(ROOT, "docker", service.build.context, service.build.dockerfile))).toBe(true);
    expect(Object.keys(service.build.args).filter((name) => !dockerfile.includes(`ARG ${name}`))).toEqual([]);
  });

  it("publishes on loopback alone and keeps data in one named volume", () => {
    expect(service.ports).toEqual(["127.0.0.1:${PORT:-4517}:4517"]);
    expect(service.volumes).toEqual(["data:/data", "${WORKSPACE}:${WORKSPACE}"]);
    expect(Object.keys(volumes)).toEqual(["data"]);
  });

  it("takes away what the daemon does not need", () => {
    expect(service).toMatchObject({ read_only: true, tmpfs: ["/tmp"], cap_drop: ["ALL"] });
    expect(service.security_opt).toEqual(["no-new-privileges:true"]);
    expect(service.privileged).toBeUndefined();
    expect(service.user).toBe("${WORKSPACE_UID:-1000}:${WORKSPACE_GID:-1000}");
  });

  it("gives the daemon time to stop and asks it for its health as the image does", () => {
    expect(service).toMatchObject({ stop_signal: "SIGTERM", stop_grace_period: "20s" });
    expect(service.healthcheck.test).toEqual(["CMD", "delegate-mcp", "list", "--json"]);
  });

  it("sets only settings that exist, as JSON where they are lists, and no secret", () => {
    const environment: Record<string, string> = service.environment;
    expect(Object.keys(environment).filter((name) => !SETTING_NAMES.has(name))).toEqual([]);
    const roots = (environment["DELEGATE_MCP_WORKSPACES_ROOTS"] ?? "").replace(/\$\{WORKSPACE[^}]*\}/, "/home/me");
    expect(JSON.parse(roots)).toEqual(["/home/me"]);
    expect(JSON.parse(environment["DELEGATE_MCP_SERVER_ALLOWED_HOSTS"] ?? "")).toEqual(["delegate-mcp:4517"]);
    expect(Object.keys(environment).filter((name) => /TOKEN|SECRET|KEY/.test(name))).toEqual([]);
  });
});

function all(stage: Stage, keyword: string): readonly string[] {
  return stage.instructions.filter((instruction) => instruction.keyword === keyword).map(({ text }) => text);
}

function read(name: string): string {
  return readFileSync(path.join(ROOT, name), "utf8");
}
