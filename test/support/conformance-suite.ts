/**
 * The official conformance suite against one server and one revision, and what it found, check by check.
 *
 * Every scenario that knows the revision runs, the suite's pending ones too. What is expected to fail stands in a file of
 * the suite's own form, with a reason on every line; the suite itself compares.
 *
 * Absent on purpose: the scenarios of the tasks extension, which the suite keeps apart; it is not offered.
 */

import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parse } from "yaml";
import { listAt, parsed, textAt } from "./json.ts";
import { runProtocolTool } from "./protocol-tools.ts";

export const REVISIONS = ["2025-11-25", "2026-07-28"] as const;
export type Revision = (typeof REVISIONS)[number];

export type SuiteRun = {
  /** 0: everything passed or was expected to fail, and everything that was expected to fail did. */
  readonly code: number | null;
  /** `scenario:check` of all that passed. */
  readonly passed: ReadonlySet<string>;
  /** `scenario:check` of all that failed or earned a warning. */
  readonly failed: ReadonlySet<string>;
  /** What a person has to read when a run disappoints. */
  readonly report: string;
};

export type ExpectedFailures = {
  readonly file: string;
  readonly entries: readonly string[];
  /** Lines that name a check and no reason. */
  readonly unexplained: readonly string[];
};

type Check = { readonly name: string; readonly status: string; readonly message: string };

/** A result folder of the suite: `server-<scenario>-<time>`. */
const RESULT_FOLDER = /^server-(.+)-\d{4}-\d{2}-\d{2}T/;
const ENTRY = /^\s*- \S+/;
const EXPLAINED_ENTRY = /^\s*- \S+ # \S.+/;

export function readExpectedFailures(file: string): ExpectedFailures {
  const content = readFileSync(file, "utf8");
  const entries = listAt(parse(content), "server").map(String);
  const lines = content.split("\n").filter((line) => ENTRY.test(line));
  return { file, entries, unexplained: lines.filter((line) => !EXPLAINED_ENTRY.test(line)) };
}

export async function runSuite(url: string, revision: Revision, expected: ExpectedFailures): Promise<SuiteRun> {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), "conformance-")));
  try {
    const results = path.join(folder, "results");
    const choice = ["--suite", "all", "--spec-version", revision, "--expected-failures", expected.file];
    const run = await runProtocolTool("conformance", ["server", "--url", url, ...choice, "-o", results], folder);
    const checks = readChecks(results);
    const named = (...statuses: readonly string[]): ReadonlySet<string> =>
      new Set(checks.filter(({ status }) => statuses.includes(status)).map(({ name }) => name));
    return {
      code: run.code,
      passed: named("SUCCESS"),
      failed: named("FAILURE", "WARNING"),
      report: reportOf(revision, run, checks, expected),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readChecks(results: string): readonly Check[] {
  // Without a single result it has said why on standard error.
  if (!existsSync(results)) return [];
  return readdirSync(results).flatMap((folder) => {
    const scenario = RESULT_FOLDER.exec(folder)?.[1] ?? folder;
    const checks = parsed(readFileSync(path.join(results, folder, "checks.json"), "utf8"));
    return listAt({ checks }, "checks").map((check) => ({
      name: `${scenario}:${textAt(check, "id")}`,
      status: textAt(check, "status"),
      message: textAt(check, "errorMessage") || textAt(check, "description"),
    }));
  });
}

/** The suite's own verdict, and in front of it the checks that failed without being expected to, with their messages. */
function reportOf(
  revision: Revision,
  run: { readonly code: number | null; readonly stdout: string; readonly stderr: string },
  checks: readonly Check[],
  expected: ExpectedFailures,
): string {
  const surprising = checks
    .filter(({ name, status }) => ["FAILURE", "WARNING"].includes(status) && !expected.entries.includes(name))
    .map(({ name, status, message }) => `${status} ${name}\n    ${message}`);
  const summary = run.stdout.slice(Math.max(0, run.stdout.indexOf("=== SUMMARY ===")));
  const title = `Revision ${revision}: the conformance suite ended with ${run.code}.`;
  return [title, ...surprising, summary, run.stderr].filter((part) => part !== "").join("\n");
}
