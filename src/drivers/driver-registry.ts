/**
 * The drivers by name.
 *
 * Invariant: a name has one driver; two with the same name are a mistake of the build and stop the start.
 */

import type { Driver } from "../ports/driver.ts";

export type DriverRegistry = {
  /** Null if there is no such driver. */
  find(name: string): Driver | null;
  /** In the order in which they were given. */
  readonly names: readonly string[];
};

export function createDriverRegistry(drivers: readonly Driver[]): DriverRegistry {
  const byName = new Map(drivers.map((driver) => [driver.name, driver]));
  if (byName.size !== drivers.length)
    throw new Error(`two drivers have the same name: ${drivers.map((d) => d.name).join(", ")}`);
  return { find: (name) => byName.get(name) ?? null, names: [...byName.keys()] };
}
