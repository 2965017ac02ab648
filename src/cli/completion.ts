/**
 * `completion`: a script that teaches a shell our commands, options and their choices. Made from the program itself.
 *
 * Absent on purpose: ids of tasks. They would need the daemon at each press of a key.
 */

import type { Command as Parser } from "commander";
import { type Completion, completionOf, type Place, type Value, valueOptions } from "./completion-words.ts";
import type { Command } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { printJson } from "./print.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export function completion(command: Command, program: Parser, shell: Shell): number {
  const script = SCRIPTS[shell](completionOf(program));
  if (command.options.json === true) printJson(command.io.stdout, { shell, script });
  else command.io.stdout.write(script);
  return EXIT.ok;
}

const SCRIPTS: Readonly<Record<Shell, (words: Completion) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

function bashScript(words: Completion): string {
  const { program, places } = words;
  const values = valueCases(places, {
    choice: (choices) => `COMPREPLY=($(compgen -W '${choices.join(" ")}' -- "$cur"))`,
    file: bashFiles("-f"),
    directory: bashFiles("-d"),
    any: ":",
  });
  const offers = places.map(({ path, commands, options, choices }) => {
    const plain = [...commands.map(({ word }) => word), ...choices].join(" ");
    const dashed = options.flatMap(({ word, short }) => (short === null ? [word] : [word, short])).join(" ");
    return `    '${path}') plain='${plain}'; dashed='${dashed}' ;;`;
  });
  return `# Completion of ${program} for bash. Use it: source <(${program} completion bash)
_delegate_mcp() {
  local IFS=$' \\t\\n' cur="\${COMP_WORDS[COMP_CWORD]}" prev='' at='' skip=0 word i plain='' dashed=''
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    if [[ $word == '=' ]]; then skip=1; continue; fi
    prev="$word"
    if ((skip)); then skip=0; prev=''; continue; fi
    case "$word" in
      ${valueOptions(words).join("|")}) skip=1; continue ;;
    esac
    case "$at/$word" in
${stepCases(places, (path) => `at='${path}'`)}
    esac
  done
  if [[ $cur == '=' ]]; then cur=''; fi
  if ((skip)); then
    case "$prev" in
${values}
    esac
    return
  fi
  case "$at" in
${offers.join("\n")}
  esac
  if [[ $cur == -* ]]; then plain="$dashed"; fi
  COMPREPLY=($(compgen -W "$plain" -- "$cur"))
}
complete -F _delegate_mcp ${program}
`;
}

/** Names of files may hold blanks, so only line ends part them. */
function bashFiles(kind: "-f" | "-d"): string {
  return `compopt -o filenames 2>/dev/null || :; IFS=$'\\n'; COMPREPLY=($(compgen ${kind} -- "$cur"))`;
}

function zshScript(words: Completion): string {
  const { program, places } = words;
  const values = valueCases(places, {
    choice: (choices) => `compadd -- ${choices.join(" ")}`,
    file: "_files",
    directory: "_files -/",
    any: ":",
  });
  const offers = places.map(({ path, commands, options, choices }) => {
    const plain = [...commands.map(described), ...choices.map((word) => quoted(word))].join(" ");
    const dashed = options.flatMap((option) => [
      described(option),
      ...(option.short === null ? [] : [described({ word: option.short, about: option.about })]),
    ]);
    return `    ('${path}') plain=(${plain}); dashed=(${dashed.join(" ")}) ;;`;
  });
  return `#compdef ${program}
# Completion of ${program} for zsh. Use it: source <(${program} completion zsh)
_delegate_mcp() {
  local prev='' at='' word
  local -i skip=0 i
  local -a plain dashed
  for ((i = 2; i < CURRENT; i++)); do
    word="\${words[i]}"
    prev="$word"
    if ((skip)); then skip=0; prev=''; continue; fi
    case "$word" in
      (${valueOptions(words).join("|")}) skip=1; continue ;;
    esac
    case "$at/$word" in
${stepCases(places, (path) => `at='${path}'`, "(")}
    esac
  done
  if ((skip)); then
    case "$prev" in
${values.replace(/^( +)/gm, "$1(")}
    esac
    return
  fi
  case "$at" in
${offers.join("\n")}
  esac
  if [[ "\${words[CURRENT]}" == -* ]]; then
    _describe -t options option dashed
  else
    _describe -t commands command plain
  fi
}
if [[ "\${funcstack[1]}" == _delegate_mcp ]]; then _delegate_mcp "$@"; else compdef _delegate_mcp ${program}; fi
`;
}

function fishScript(words: Completion): string {
  const { program, places } = words;
  const lines = places.flatMap(({ path, commands, options, choices }) => {
    const start = `complete -c ${program} -n '__delegate_mcp_is "${path}"'`;
    return [
      ...commands.map(({ word, about }) => `${start} -a ${word} -d ${quoted(about)}`),
      ...choices.map((word) => `${start} -a ${word}`),
      ...options.map(({ word, short, about, value }) => {
        const dash = short === null ? "" : ` -s ${short.slice(1)}`;
        return `${start} -l ${word.slice(2)}${dash}${fishValue(value)} -d ${quoted(about)}`;
      }),
    ];
  });
  return `# Completion of ${program} for fish. Use it: ${program} completion fish | source
function __delegate_mcp_is
  set -l at ''
  set -l skip 0
  set -l typed (commandline -opc)
  for word in $typed[2..-1]
    if test $skip -eq 1
      set skip 0
      continue
    end
    switch $word
      case ${valueOptions(words).join(" ")}
        set skip 1
        continue
    end
    switch "$at/$word"
${steps(places)
  .map(({ from, path }) => `      case '${from}'\n        set at '${path}'`)
  .join("\n")}
    end
  end
  test "$at" = "$argv[1]"
end
complete -c ${program} -f
${lines.join("\n")}
`;
}

function fishValue(value: Value): string {
  switch (value.kind) {
    case "none":
      return "";
    case "any":
      return " -x";
    case "file":
      return " -r -F";
    case "directory":
      return " -x -a '(__fish_complete_directories)'";
    case "choice":
      return ` -x -a '${value.choices.join(" ")}'`;
  }
}

/** Which word leads from which place to which. */
function steps(places: readonly Place[]): readonly { readonly from: string; readonly path: string }[] {
  return places.flatMap(({ path: at, commands }) =>
    commands.map(({ word, path }) => ({ from: `${at}/${word}`, path })),
  );
}

function stepCases(places: readonly Place[], then: (path: string) => string, open = ""): string {
  return steps(places)
    .map(({ from, path }) => `      ${open}'${from}') ${then(path)} ;;`)
    .join("\n");
}

type Actions = {
  readonly choice: (choices: readonly string[]) => string;
  readonly file: string;
  readonly directory: string;
  readonly any: string;
};

/** What follows each option that takes a value. */
function valueCases(places: readonly Place[], actions: Actions): string {
  const cases = places.flatMap(({ options }) =>
    options.flatMap(({ word, short, value }) => {
      if (value.kind === "none" || value.kind === "any") return [];
      const action = value.kind === "choice" ? actions.choice(value.choices) : actions[value.kind];
      return [`      ${[word, ...(short === null ? [] : [short])].join("|")}) ${action} ;;`];
    }),
  );
  return [...new Set(cases), `      *) ${actions.any} ;;`].join("\n");
}

/** `word:about` for zsh's \`_describe\`. */
function described({ word, about }: { readonly word: string; readonly about: string }): string {
  return quoted(`${word}:${about.replaceAll("\\", "\\\\").replaceAll(":", "\\:")}`);
}

/** In single quotes, for shells where a backslash means nothing inside of them but before a quote (fish) or never. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "’")}'`;
}
