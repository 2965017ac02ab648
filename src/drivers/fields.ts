/**
 * Reading what an agent sent. Agents differ and change: what is missing or of another kind is null, never an error.
 */

export type Fields = Readonly<Record<string, unknown>>;

const NONE: Fields = {};

/** Empty unless it is an object. */
export function fieldsIn(value: unknown): Fields {
  return isFields(value) ? value : NONE;
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function listIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function textIn(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

export function numberIn(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
