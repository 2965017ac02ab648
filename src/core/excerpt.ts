/**
 * Cuts long texts to a budget: head and tail kept, the gap marked with its size.
 *
 * Invariant: never splits a surrogate pair; what fits is returned unchanged.
 */

/** At most `charactersMax` UTF-16 units of `text`, the marker included. */
export function excerpt(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  const marker = `\n… ${text.length - charactersMax} or more characters left out …\n`;
  // Where not even the marker fits there is only a head.
  if (marker.length > charactersMax) return headOf(text, charactersMax);
  const room = charactersMax - marker.length;
  const headLength = Math.ceil(room * 0.7);
  const tailLength = room - headLength;
  return headOf(text, headLength) + marker + tailOf(text, tailLength);
}

/** The first `length` units, one less where that would split a pair. */
export function headOf(text: string, length: number): string {
  if (length <= 0) return "";
  const splits = length < text.length && isHighSurrogate(text.charCodeAt(length - 1));
  return text.slice(0, splits ? length - 1 : length);
}

function tailOf(text: string, length: number): string {
  if (length === 0) return "";
  const from = text.length - length;
  return text.slice(isLowSurrogate(text.charCodeAt(from)) ? from + 1 : from);
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
