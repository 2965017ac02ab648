/**
 * Masks what must not be read: every secret that was named, in every form in which programs write a value down, and every
 * token of our own shape, known or not (X2, X4).
 *
 * Invariant: every character of every occurrence is masked, also where occurrences overlap.
 * Invariant: one pass over the text, whatever the number of secrets; a text without any is returned as it is.
 * Absent on purpose: a limit on the number of secrets, for the one too many would leave in clear; and what nobody writes by
 * accident (hexadecimal, backwards, in pieces).
 */

export type Secrets = {
  /** From now on this value is masked. Values under 6 characters are ignored: they would mask plain words. */
  add(secret: string): void;
  mask(text: string): string;
};

/** What tokens of a kind begin with, and how many characters they have at most. */
export type TokenShape = { readonly prefix: string; readonly charactersMax: number };

export const MASK = "[secret]";
const SECRET_CHARACTERS_MIN = 6;

type Span = { readonly from: number; readonly to: number };

/**
 * `shapes`: sources of regular expressions for what is masked though nobody named it, such as our own tokens. Each has to take
 * linear time for any text.
 */
export function createSecrets(shapes: readonly string[]): Secrets {
  const forms = createFormIndex();
  const shape = shapes.length === 0 ? null : new RegExp(shapes.join("|"), "g");
  return {
    add(secret) {
      const value = secret.trim();
      if (value.length >= SECRET_CHARACTERS_MIN) for (const form of formsOf(value)) forms.add(form);
    },
    mask(text) {
      const spans = [...forms.find(text), ...(shape === null ? [] : found(shape, text))];
      return spans.length === 0 ? text : masked(text, spans);
    },
  };
}

/**
 * Source of a RegExp for what begins with `prefix` and is at most `charactersMax` characters long, written in base64, alone or
 * inside of something longer. A prefix of five characters is enough to tell it from other
 * text.
 */
export function base64Shape({ prefix, charactersMax }: TokenShape): string {
  const begins = insidesOf(Buffer.from(prefix)).map((begin) => begin.replaceAll(/[+/]/g, "[+/_-]"));
  const charactersOfBase64 = Math.ceil((charactersMax * 8) / 6) + 2;
  return `(?:${begins.join("|")})[A-Za-z0-9+/_-]{20,${charactersOfBase64}}`;
}

function found(shape: RegExp, text: string): readonly Span[] {
  return Array.from(text.matchAll(shape), ({ index, 0: match }) => ({ from: index, to: index + match.length }));
}

/** Spans that overlap become one mask. */
function masked(text: string, spans: readonly Span[]): string {
  const parts: string[] = [];
  let end = 0;
  for (const { from, to } of spans.toSorted((one, other) => one.from - other.from)) {
    if (from >= end) parts.push(text.slice(end, from), MASK);
    end = Math.max(end, to);
  }
  return parts.join("") + text.slice(end);
}

/** No form is shorter than a secret, so this many characters tell forms apart without a look at the rest. */
const HEAD_CHARACTERS = SECRET_CHARACTERS_MIN;
const STARTS = 65_536;

type FormIndex = {
  add(form: string): void;
  /** The longest form at every place where one begins, in the order of the text. */
  find(text: string): readonly Span[];
};

/**
 * Forms by their first characters. Nearly every place of a text is passed over after one look at a table by three
 * characters.
 */
function createFormIndex(): FormIndex {
  const starts = new Uint8Array(STARTS);
  const byHead = new Map<string, readonly string[]>();
  return {
    add(form) {
      const head = form.slice(0, HEAD_CHARACTERS);
      const others = byHead.get(head) ?? [];
      if (others.includes(form)) return;
      byHead.set(
        head,
        [...others, form].toSorted((one, other) => other.length - one.length),
      );
      starts[slotOf(form.charCodeAt(0), form.charCodeAt(1), form.charCodeAt(2))] = 1;
    },
    find(text) {
      const spans: Span[] = [];
      const last = byHead.size === 0 ? -1 : text.length - HEAD_CHARACTERS;
      let second = text.charCodeAt(0);
      let third = text.charCodeAt(1);
      for (let from = 0; from <= last; from++) {
        const first = second;
        second = third;
        third = text.charCodeAt(from + 2);
        if (starts[slotOf(first, second, third)] !== 1) continue;
        const form = byHead.get(text.slice(from, from + HEAD_CHARACTERS))?.find((form) => text.startsWith(form, from));
        if (form !== undefined) spans.push({ from, to: from + form.length });
      }
      return spans;
    },
  };
}

function slotOf(first: number, second: number, third: number): number {
  return (first ^ (second << 5) ^ (third << 10)) & (STARTS - 1);
}

function formsOf(secret: string): ReadonlySet<string> {
  const wellFormed = secret.toWellFormed();
  return new Set([secret, ...jsonForms(secret), ...urlForms(wellFormed), ...base64Forms(Buffer.from(wellFormed))]);
}

/** As JSON writers of different languages escape it, and as a string within a string. */
function jsonForms(secret: string): readonly string[] {
  let forms = [escaped(secret)];
  for (const vary of [slashes, htmlSafe, asciiLower, asciiUpper, escaped]) {
    forms = forms.flatMap((form) => [form, vary(form)]);
  }
  return forms;
}

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);
const slashes = (text: string): string => text.replaceAll("/", "\\/");
const htmlSafe = (text: string): string => text.replace(/[<>&]/g, unicodeEscape);
const asciiLower = (text: string): string => text.replace(/[\u007f-\uffff]/g, unicodeEscape);
const asciiUpper = (text: string): string =>
  text.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unicodeEscape(unit).slice(2).toUpperCase()}`);

function unicodeEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** As a component, by the strict rule, as a form's field, and as part of a whole address; both spellings of the digits. */
function urlForms(secret: string): readonly string[] {
  const component = encodeURIComponent(secret);
  const strict = component.replace(/[!'()*]/g, percentEscape);
  const forms = [component, strict, new URLSearchParams([["", secret]]).toString().slice(1), encodeURI(secret)];
  return [...forms, ...forms.map((form) => form.replace(/%[0-9A-F]{2}/g, (digits) => digits.toLowerCase()))];
}

function percentEscape(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** Alone, and inside of something longer (`user:password`): there it may begin at each of three places of a group. */
function base64Forms(bytes: Buffer): readonly string[] {
  const alone = bytes.toString("base64");
  const forms = [alone, alone.replace(/=+$/, ""), ...insidesOf(bytes)];
  return [...forms, ...forms.map((form) => form.replaceAll("+", "-").replaceAll("/", "_"))];
}

/** At each of three places, the characters that depend on nothing but these bytes. */
function insidesOf(bytes: Buffer): readonly string[] {
  return [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
}
