/**
 * The system's monotonic time in ms. Unlike `performance.now()` it counts from the same moment in every process of the
 * machine, so a time taken in a server can be compared with one taken by its caller.
 */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
