/**
 * Two projects: `fast` runs in `npm run check`, `slow` starts real daemons, children, harnesses and tools and runs in
 * `npm test` only. Slow files run one after another: they measure time and share two cores with what they start.
 */

import { configDefaults, defineConfig } from "vitest/config";
import { createSummaryReporter } from "./test/support/summary-reporter.ts";

const SLOW = ["fault", "clients", "e2e", "browser", "tooling"].map((folder) => `test/${folder}/**/*.test.ts`);

export default defineConfig({
  test: {
    reporters: ["default", createSummaryReporter()],
    teardownTimeout: 5_000,
    projects: [
      {
        test: {
          name: "fast",
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...SLOW],
          testTimeout: 10_000,
          hookTimeout: 10_000,
          maxWorkers: "100%",
          sequence: { groupOrder: 1 },
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
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
