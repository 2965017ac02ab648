/**
 * Small shapes that every answer is made of.
 */

export type AnswerJson = Readonly<Record<string, unknown>>;

/** ISO 8601 in UTC. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Leaves out what is null, at every depth: absent means none. */
export function compact(fields: Readonly<Record<string, unknown>>): AnswerJson {
  const kept = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  // Unlike an assignment this also keeps a field that is named `__proto__`.
  return Object.fromEntries(kept.map(([name, value]) => [name, compacted(value)]));
}

function compacted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(compacted);
  return isFields(value) ? compact(value) : value;
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
