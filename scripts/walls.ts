/**
 * Runs the layer walls of `.dependency-cruiser.cjs` over `src` in the current folder.
 *
 * Invariant: seeing no module, or none of the layers that everything rests on, is a failure, so a moved folder or a
 * renamed extension cannot turn the walls off in silence.
 */

import path from "node:path";
import { type ICruiseResult, cruise } from "dependency-cruiser";
import extractDepcruiseOptions from "dependency-cruiser/config-utl/extract-depcruise-options";
import extractTSConfig from "dependency-cruiser/config-utl/extract-ts-config";

const RULES = path.join(import.meta.dirname, "..", ".dependency-cruiser.cjs");
const MUST_BE_SEEN = ["src/core/", "src/ports/"];

const { output } = await cruise(["src"], await extractDepcruiseOptions(RULES), undefined, {
  tsConfig: extractTSConfig("tsconfig.json"),
});
if (typeof output === "string") throw new Error("dependency-cruiser answered with text instead of a result");

const problems = [...blindSpots(output), ...violations(output)];
for (const problem of problems) console.error(problem);
console.log(`${own(output).length} modules, ${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;

function own(result: ICruiseResult): string[] {
  return result.modules.map((module) => module.source).filter((source) => source.startsWith("src/"));
}

function blindSpots(result: ICruiseResult): string[] {
  return MUST_BE_SEEN.filter((folder) => !own(result).some((source) => source.startsWith(folder))).map(
    (folder) => `blind: no module seen under ${folder}`,
  );
}

function violations(result: ICruiseResult): string[] {
  return result.summary.violations.map((violation) => `${violation.rule.name}: ${violation.from} -> ${violation.to}`);
}
