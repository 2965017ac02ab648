/**
 * What can be typed where, read off the program itself, for the scripts of `completion`.
 *
 * Invariant: an option takes the same kind of value wherever it exists, so a script can complete and skip values without
 * knowing the command; `completionOf` asserts it.
 */

import type { Command as Parser, Option } from "commander";
import { assert } from "../core/assert.ts";

export type Word = { readonly word: string; readonly about: string };

export type OptionWords = Word & {
  readonly short: string | null;
  readonly value: Value;
};

/** What follows an option. */
export type Value =
  | { readonly kind: "none" | "any" | "file" | "directory" }
  | { readonly kind: "choice"; readonly choices: readonly string[] };

/** One command, by its path from the program on: `` for the program, `token add`. */
export type Place = {
  readonly path: string;
  /** Commands below it; an alias leads to the place of its command. */
  readonly commands: readonly (Word & { readonly path: string })[];
  readonly options: readonly OptionWords[];
  /** Words that its first operand can be. */
  readonly choices: readonly string[];
};

export type Completion = { readonly program: string; readonly places: readonly Place[] };

export function completionOf(program: Parser): Completion {
  const common = program.options.filter((option) => option.long !== "--version");
  const places = placesBelow(program, "", common);
  const values = new Map<string, string>();
  for (const { word, value } of places.flatMap(({ options }) => options)) {
    const shape = JSON.stringify(value);
    assert((values.get(word) ?? shape) === shape, `${word} takes the same everywhere`);
    values.set(word, shape);
  }
  return { program: program.name(), places };
}

/** Options that a value follows, in all their forms. */
export function valueOptions({ places }: Completion): readonly string[] {
  const forms = places.flatMap(({ options }) =>
    options.flatMap(({ word, short, value }) =>
      value.kind === "none" ? [] : [word, ...(short === null ? [] : [short])],
    ),
  );
  return [...new Set(forms)];
}

const HELP: OptionWords = { word: "--help", short: "-h", about: "show this help", value: { kind: "none" } };

function placesBelow(parser: Parser, path: string, common: readonly Option[]): readonly Place[] {
  const below = parser.commands.flatMap((command) => {
    const at = path === "" ? command.name() : `${path} ${command.name()}`;
    const names = [command.name(), ...command.aliases()];
    return [{ command, at, names }];
  });
  const own = [...new Set([...parser.options, ...common])].filter((option) => !option.hidden);
  const place: Place = {
    path,
    commands: below.flatMap(({ command, at, names }) =>
      names.map((word) => ({ word: plain(word), about: command.description(), path: at })),
    ),
    options: [...own.flatMap(wordsOf), HELP],
    choices: parser.registeredArguments[0]?.argChoices?.map(plain) ?? [],
  };
  return [place, ...below.flatMap(({ command, at }) => placesBelow(command, at, common))];
}

function wordsOf(option: Option): readonly OptionWords[] {
  if (option.long === undefined) return [];
  const { short = null } = option;
  return [{ word: plain(option.long), short, about: option.description, value: valueOf(option) }];
}

function valueOf(option: Option): Value {
  if (!option.required && !option.optional) return { kind: "none" };
  if (option.argChoices !== undefined) return { kind: "choice", choices: option.argChoices.map(plain) };
  if (option.flags.includes("<file>")) return { kind: "file" };
  return { kind: option.flags.includes("<dir>") ? "directory" : "any" };
}

/** Words go into scripts as they are, so they may hold nothing that a shell reads. */
function plain(word: string): string {
  assert(/^[\w-]+$/.test(word), `${word} needs no quotes`);
  return word;
}
