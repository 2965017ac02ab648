/**
 * The layer walls: a file in `src` imports its own folder, `core` and `ports`; only `main.ts` imports everything.
 *
 * Invariant: every package that `src` imports has an owner here, so a new dependency is a decision, not an accident.
 * Absent on purpose: exceptions. `scripts/walls.ts` runs this and asserts that it saw modules at all.
 */

const OWNERS = {
  "(kysely|pg)": "store",
  "pg-boss": "queue",
  fastify: "http|mcp",
  "@modelcontextprotocol": "mcp|cli",
  "@agentclientprotocol": "drivers",
  undici: "drivers|engine|cli|notify",
  "(pino|prom-client|@opentelemetry)": "telemetry",
  ulid: "system",
  zod: "mcp|http|config|cli",
  "(commander|cli-table3|picocolors|env-paths)": "cli|config",
};
const owned = `^node_modules/(${Object.keys(OWNERS).join("|")}|@types/node)/`;
const notTypes = { dependencyTypesNot: ["type-only"] };
const rule = (name, from, to) => ({ name, severity: "error", from: { path: from }, to });

module.exports = {
  forbidden: [
    rule("no-cycles", "^src/", { circular: true }),
    rule("everything-resolves", "^src/", { couldNotResolve: true }),
    rule("core-is-pure", "^src/core/", { pathNot: "^src/core/" }),
    rule("ports-know-core-and-ports", "^src/ports/", { pathNot: "^src/(core|ports)/" }),
    rule("ports-import-types", "^src/ports/", notTypes),
    rule("ports-hold-types", "^src/", { path: "^src/ports/", ...notTypes }),
    rule("own-folder-core-ports", "^src/(?!cli/)([^/]+)/", { path: "^src/", pathNot: "^src/($1|core|ports)/" }),
    rule("a-driver-knows-no-other", "^src/drivers/([^/]+)/", {
      path: "^src/drivers/[^/]+/",
      pathNot: "^src/drivers/$1/",
    }),
    rule("cli-may-see-main-and-config", "^src/cli/", {
      path: "^src/",
      pathNot: "^src/(cli|core|ports|config|main\\.ts$)",
    }),
    rule("only-main-stands-at-the-top", "^src/(?!main\\.ts$)[^/]+$", {}),
    rule("src-stands-alone", "^src/", { path: "^(test|scripts|bin|dashboard|docs)/" }),
    rule("packages-have-owners", "^src/", { path: "^node_modules/", pathNot: owned }),
    rule("no-development-packages", "^src/", { dependencyTypes: ["npm-dev"], pathNot: "^node_modules/@types/node/" }),
    ...Object.entries(OWNERS).map(([name, owners]) =>
      rule(`${name} belongs to ${owners}`, `^src/(?!main\\.ts$|(${owners})/)`, { path: `^node_modules/${name}/` }),
    ),
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    doNotFollow: { path: "node_modules" },
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "types", "node", "default"] },
  },
};
