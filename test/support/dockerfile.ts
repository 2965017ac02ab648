/**
 * Reads a Dockerfile into stages of instructions: as much of the format as our own file uses.
 *
 * Absent on purpose: variable substitution, heredocs and escape directives. Validity is checked by a linter in the tests.
 */

export type Instruction = { readonly keyword: string; readonly text: string };
export type Stage = { readonly name: string | null; readonly instructions: readonly Instruction[] };

/** Stages in their order; what stands before the first `FROM` is left out. */
export function stagesOf(dockerfile: string): readonly Stage[] {
  const stages: { name: string | null; instructions: Instruction[] }[] = [];
  for (const { keyword, text } of instructionsOf(dockerfile)) {
    if (keyword === "FROM") stages.push({ name: / AS (\S+)$/i.exec(text)?.[1] ?? null, instructions: [] });
    else stages.at(-1)?.instructions.push({ keyword, text });
  }
  return stages;
}

/** Words of the exec form, `["a", "b"]`. Throws if `text` has another form. */
export function execForm(text: string): readonly string[] {
  const words: unknown = JSON.parse(text);
  if (!Array.isArray(words) || !words.every((word) => typeof word === "string"))
    throw new Error(`no exec form: ${text}`);
  return words;
}

/** Names and values of one `ENV` instruction, in which no value is quoted. */
export function environmentOf(text: string): Record<string, string> {
  return Object.fromEntries(
    text.split(/\s+/).map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
}

function instructionsOf(dockerfile: string): readonly Instruction[] {
  const lines = dockerfile.split("\n").filter((line) => !/^\s*(#|$)/.test(line));
  const joined = lines.join("\n").replace(/\\\n\s*/g, "");
  return joined.split("\n").map((line) => {
    const [keyword = "", ...rest] = line.trim().split(/\s+/);
    return { keyword: keyword.toUpperCase(), text: rest.join(" ") };
  });
}
