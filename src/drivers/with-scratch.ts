/**
 * Gives every attempt of a driver its scratch folder (`AttemptOrder.scratchDir`): there before it runs, gone after it.
 *
 * Invariant: the folder is the owner's alone (0700); one that cannot be made is a failed start with the system's code.
 * Absent on purpose: folders that a killed daemon left. They hold no more than the store does and stay the owner's.
 */

import { mkdir, rm } from "node:fs/promises";
import type { Driver, DriverEvent } from "../ports/driver.ts";

export function withScratch(driver: Driver): Driver {
  return {
    name: driver.name,
    onLoss: driver.onLoss,
    async run(order, report, tools) {
      const { scratchDir } = order;
      const refused = await made(scratchDir);
      if (refused !== null) return report(refused);
      try {
        await driver.run(order, report, tools);
      } finally {
        await rm(scratchDir, { recursive: true, force: true }).catch((error: unknown) =>
          tools.log.warn("scratch_not_removed", { mark: order.mark, error: String(error) }),
        );
      }
    },
  };
}

/** Null if the folder is there now. */
async function made(scratchDir: string): Promise<DriverEvent | null> {
  try {
    await mkdir(scratchDir, { recursive: true, mode: 0o700 });
    return null;
  } catch (error) {
    const spawnCode = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
    const text = error instanceof Error ? error.message : spawnCode;
    const fault = { spawnCode, text };
    return { kind: "end", end: "fault", fault, text: null, sideEffects: false, usage: null };
  }
}
