/**
 * Makes text that a child, its tools or its provider wrote safe to show (P17).
 *
 * Invariant: what comes out holds no control character but tab and line feed, no ANSI sequence, no bidirectional or
 * zero-width character, and no broken surrogate; and sanitising it again changes nothing.
 * Absent on purpose: judging content. Fences and placement do the rest (`mcp/reply.ts`).
 */

// ESC-introduced sequences (CSI; OSC, DCS, SOS, PM and APC up to their end, at the latest that of the line, so that one
// left open does not swallow a report; and two-character ones) and their single-character C1 forms.
const ANSI =
  // oxlint-disable-next-line no-control-regex
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]/g;
// C0 but tab and LF, DEL, C1, line and paragraph separators, interlinear annotations, joiners of hieroglyphs, and all that
// Unicode calls ignorable: soft hyphen, zero-width and bidi controls, word joiners, fillers, variation selectors (bytes can
// be hidden in those), BOM, tag characters.
const INVISIBLE =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ufff9-\ufffb\u{13430}-\u{1343f}\p{Default_Ignorable_Code_Point}]/gu;

/** Several lines: line feeds and tabs stay, CR LF becomes LF. */
export function sanitise(text: string): string {
  return text.toWellFormed().replaceAll("\r\n", "\n").replace(ANSI, "").replace(INVISIBLE, "");
}

/** One line of at most `charactersMax` UTF-16 units, for fields such as a command. */
export function sanitiseLine(text: string, charactersMax: number): string {
  const line = sanitise(text).replace(/\s+/g, " ").trim();
  if (line.length <= charactersMax) return line;
  return `${line.slice(0, charactersMax - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** One line of at most `charactersMax` characters of JSON, where a quote takes two. */
export function sanitiseShort(text: string, charactersMax: number): string {
  const line = sanitiseLine(text, charactersMax);
  return sizeInJson(line) <= charactersMax ? line : sanitiseLine(text, Math.floor(charactersMax / 2));
}

/** Characters that a text takes inside of JSON, without its quotes. */
export function sizeInJson(text: string): number {
  return JSON.stringify(text).length - 2;
}
