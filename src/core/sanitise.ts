/**
 * Makes text that a child, its tools or its provider wrote safe to show (P17).
 *
 * Invariant: what comes out holds no control character but tab and line feed, no ANSI sequence, no bidirectional or
 * zero-width character, and no broken surrogate.
 * Absent on purpose: judging content. Fences and placement do the rest (`mcp/reply.ts`).
 */

// ESC-introduced sequences (CSI, OSC up to its end, and two-character ones) and their single-character C1 forms.
const ANSI =
  // oxlint-disable-next-line no-control-regex
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]/g;
// C0 but tab and LF, DEL, C1, soft hyphen, Arabic letter mark, zero-width and bidi controls, word joiners, line and
// paragraph separators, variation-independent fillers, BOM, interlinear annotations, tag characters.
const INVISIBLE =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

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
