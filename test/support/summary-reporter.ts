/**
 * Ends a test run with one plain line, `N passed, N failed` (and `, N skipped` if there are any), for whoever counts.
 *
 * Invariant: the line is the last thing the process prints. A test file that could not be loaded, a hook that failed
 * and an error outside every test count as one failure each, so a broken run never closes on zero failures.
 */

import type { Reporter } from "vitest/node";

type Counts = { readonly passed: number; readonly failed: number; readonly skipped: number };

/** Prints when the process ends, the counts of the newest run (in watch mode there are several). */
export function createSummaryReporter(): Reporter {
  return {
    onTestRunEnd(modules, errorsOutsideTests, reason) {
      const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state));
      const suites = modules.flatMap((module) => [module, ...module.children.allSuites()]);
      const failed = [
        ...states.filter((state) => state === "failed"),
        ...suites.flatMap((suite) => suite.errors()),
        ...errorsOutsideTests,
      ].length;
      const passed = states.filter((state) => state === "passed").length;
      const skipped = states.filter((state) => state === "skipped" || state === "pending").length;
      printAtExit(sentence({ passed, failed: reason === "failed" ? Math.max(failed, 1) : failed, skipped }));
    },
  };
}

let lastLine = "";

function printAtExit(line: string): void {
  if (lastLine === "") process.once("exit", () => process.stdout.write(lastLine));
  lastLine = `${line}\n`;
}

function sentence({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`;
}
