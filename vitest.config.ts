/**
 * Three projects: `fast` runs in `npm run check`; `surface` (sockets, programs, thousands of requests) and `slow` (real
 * daemons, children, harnesses, tools) run in `npm test` only. Slow files run one after another: they measure time and
 * share two cores with what they start.
 */

import { configDefaults, defineConfig } from "vitest/config";
import { createSummaryReporter } from "./test/support/summary-reporter.ts";

const SLOW = ["fault", "clients", "conformance", "e2e", "browser", "tooling"].map(
  (folder) => `test/${folder}/**/*.test.ts`,
);

/** Whole surfaces over real sockets and disks: too long for every check, and each file alone takes no more than seconds. */
const SURFACE = [
  "test/cli/**/*.test.ts",
  "test/config/{load-config,tokens}.test.ts",
  "test/contract/driver-{acp,claude,codex,command,model,pi}.test.ts",
  "test/protocol/tools-{child-text,clients,inputs,programs,rest}.test.ts",
  "test/protocol/wire-{held,http,resume,sessions}.test.ts",
  "test/store/{group-commit,sqlite}.test.ts",
  "test/workspace/git-changes.test.ts",
];

export default defineConfig({
  test: {
    reporters: ["default", createSummaryReporter()],
    teardownTimeout: 5_000,
    projects: [
      {
        test: {
          name: "fast",
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...SLOW, ...SURFACE],
          testTimeout: 10_000,
          hookTimeout: 10_000,
          maxWorkers: "100%",
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: "surface",
          include: SURFACE,
          testTimeout: 20_000,
          hookTimeout: 20_000,
          maxWorkers: "100%",
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          name: "slow",
          include: SLOW,
          globalSetup: ["test/support/build-first.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
