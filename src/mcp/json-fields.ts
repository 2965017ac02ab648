/**
 * Small shapes that every answer is made of.
 */

export type AnswerJson = Readonly<Record<string, unknown>>;

/** ISO 8601 in UTC. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Leaves out what is null: absent means none. */
export function compact(fields: Readonly<Record<string, unknown>>): AnswerJson {
  const kept: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value !== null && value !== undefined) kept[name] = value;
  }
  return kept;
}
