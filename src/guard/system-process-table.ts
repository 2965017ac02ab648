/**
 * The process table of the system that this runs on. Absent on purpose: Windows, which has neither process groups nor
 * signals of this kind.
 */

import { createLinuxProcessTable } from "./linux-process-table.ts";
import type { ProcessTable } from "./process-table.ts";
import { createPsProcessTable } from "./ps-process-table.ts";

export async function createSystemProcessTable(): Promise<ProcessTable> {
  return process.platform === "linux" ? createLinuxProcessTable() : createPsProcessTable();
}
