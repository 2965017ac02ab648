/**
 * Receipts: what makes two calls the same call (contract §3).
 *
 * Invariant: a fingerprint covers the fields as sent (absent is not the default) but for those that only say how long to
 * wait, how to show the task, or what to do about a collision.
 * Absent on purpose: hashing, which needs a library; callers hash the canonical text.
 */

export const FINGERPRINT_VERSION = 1;

const LEFT_OUT = new Set([
  "clientRequestId",
  "mode",
  "waitMs",
  "timeoutMs",
  "maxActiveMs",
  "title",
  "labels",
  "onDuplicate",
  "onBusy",
]);

export type Json = null | boolean | number | string | readonly Json[] | { readonly [field: string]: Json | undefined };

/** The fields of a call that decide whether it is the same work, each as canonical JSON (keys sorted, no spaces). */
export function fingerprintFields(call: { readonly [field: string]: Json | undefined }): Record<string, string> {
  const fields: [string, string][] = [];
  for (const name of Object.keys(call).sort()) {
    const value = call[name];
    if (value !== undefined && !LEFT_OUT.has(name)) fields.push([name, canonical(value)]);
  }
  // Unlike an assignment this also keeps a field that is named `__proto__`.
  return Object.fromEntries(fields);
}

export function canonical(value: Json): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (isList(value)) return `[${value.map(canonical).join(",")}]`;
  const parts: string[] = [];
  for (const name of Object.keys(value).sort()) {
    const field = value[name];
    if (field !== undefined) parts.push(`${JSON.stringify(name)}:${canonical(field)}`);
  }
  return `{${parts.join(",")}}`;
}

/** Names of the fields whose digests differ, sorted. */
export function differingFields(
  one: Readonly<Record<string, string>>,
  other: Readonly<Record<string, string>>,
): readonly string[] {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].filter((name) => one[name] !== other[name]).sort();
}

function isList(value: object): value is readonly Json[] {
  return Array.isArray(value);
}
