/**
 * Stores for tests: a real one in a folder of its own, and fault points that a test can arm.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FaultPoint, Faults } from "../../src/ports/fault.ts";
import type { Store } from "../../src/ports/store.ts";
import { openSqliteStore, type SqliteStoreOptions } from "../../src/store/open-sqlite-store.ts";
import { createQuietLog } from "./quiet-log.ts";
import { createStepClock } from "./step-clock.ts";

export type TempDirectory = Disposable & { readonly path: string };

/** A folder that is removed with all that is in it. */
export function createTempDirectory(): TempDirectory {
  const path = mkdtempSync(join(tmpdir(), "delegate-store-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Opens a store, or fails the test with the refusal. */
export async function openTestStore(
  options: Pick<SqliteStoreOptions, "dataDir"> & Partial<SqliteStoreOptions>,
): Promise<Store> {
  const opened = await openSqliteStore(sqliteOptions(options));
  if (opened.kind === "refused") throw new Error(`refused (${opened.reason}): ${opened.detail}`);
  return opened.store;
}

export function sqliteOptions(
  options: Pick<SqliteStoreOptions, "dataDir"> & Partial<SqliteStoreOptions>,
): SqliteStoreOptions {
  return {
    clock: createStepClock(),
    log: createQuietLog(),
    pid: process.pid,
    nextTurn: (run) => void setImmediate(run),
    mountTable: "",
    ...options,
  };
}

export type ArmedFaults = Faults & {
  /** Holds whoever passes the point until the returned function is called. */
  hold(point: FaultPoint): () => void;
  /** Makes the next passage of the point fail. */
  failOnce(point: FaultPoint, error: Error): void;
  /** Resolves when somebody stands at a point that is held. */
  reached(point: FaultPoint): Promise<void>;
};

export function createArmedFaults(): ArmedFaults {
  const gates = new Map<FaultPoint, Gate>();
  const failures = new Map<FaultPoint, Error>();
  return {
    async at(point) {
      const failure = failures.get(point);
      failures.delete(point);
      if (failure !== undefined) throw failure;
      const gate = gates.get(point);
      gate?.arrive();
      await gate?.opened;
    },
    hold(point) {
      const gate = createGate();
      gates.set(point, gate);
      return () => {
        gates.delete(point);
        gate.open();
      };
    },
    failOnce: (point, error) => void failures.set(point, error),
    reached: (point) => gates.get(point)?.arrived ?? Promise.reject(new Error(`${point} is not held`)),
  };
}

type Gate = {
  readonly arrived: Promise<void>;
  readonly opened: Promise<void>;
  readonly arrive: () => void;
  readonly open: () => void;
};

function createGate(): Gate {
  const arrival = Promise.withResolvers<void>();
  const opening = Promise.withResolvers<void>();
  return { arrived: arrival.promise, opened: opening.promise, arrive: arrival.resolve, open: opening.resolve };
}
