/**
 * CPU time of servers per call, taken in turns.
 *
 * The machine is rarely quiet: what is compared is measured right beside each other, round after round, and only the
 * median of the rounds counts.
 */

import type { ServerProcess } from "./server-process.ts";
import { median } from "./statistics.ts";

export type Contender = {
  readonly name: string;
  readonly server: Pick<ServerProcess, "usageUs">;
  /** Calls before anything is measured: code gets as fast as it will be only after thousands. */
  readonly warmUp: number;
  /** Calls in a round. */
  readonly count: number;
  drive(count: number): Promise<void>;
};

/** CPU time per call in µs, by round. */
export type Series = readonly number[];

/** Series by name of contender. */
export async function interleave(
  contenders: readonly Contender[],
  rounds: number,
): Promise<ReadonlyMap<string, Series>> {
  const series = new Map(contenders.map(({ name }): [string, number[]] => [name, []]));
  for (const { drive, warmUp } of contenders) await drive(warmUp);
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of contenders) series.get(contender.name)?.push(await cpuPerCallUs(contender));
  }
  return series;
}

export function seriesOf(all: ReadonlyMap<string, Series>, name: string): Series {
  const series = all.get(name);
  if (series === undefined) throw new Error(`${name} was not measured`);
  return series;
}

/** Median over the rounds of how many times the other's cost this one has. */
export function medianRatio(series: Series, other: Series): number {
  return median(series.map((value, round) => value / (other[round] ?? Number.NaN)));
}

async function cpuPerCallUs({ server, count, drive }: Contender): Promise<number> {
  const beforeUs = await server.usageUs();
  await drive(count);
  return ((await server.usageUs()) - beforeUs) / count;
}
