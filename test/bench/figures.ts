/**
 * A figure: what was measured against what is promised, and the table of all of them.
 */

import Table from "cli-table3";

export type Figure = {
  readonly name: string;
  /** The measured value may reach this and no more. */
  readonly target: number;
  readonly measured: number;
  readonly unit: "×" | "ms" | "KB";
  /** What the measured value was made of. */
  readonly detail: string;
};

export function isMet({ measured, target }: Figure): boolean {
  return measured <= target;
}

export function tableOf(figures: readonly Figure[]): string {
  const table = new Table({ head: ["figure", "target", "measured", "made of", ""], style: { head: [], border: [] } });
  for (const figure of figures) {
    const { name, target, measured, unit, detail } = figure;
    table.push([name, `≤ ${shown(target, unit)}`, shown(measured, unit), detail, isMet(figure) ? "ok" : "MISSED"]);
  }
  return table.toString();
}

function shown(value: number, unit: Figure["unit"]): string {
  const digits = unit === "×" ? 2 : unit === "KB" ? 1 : 0;
  return unit === "×" ? `${value.toFixed(digits)}×` : `${value.toFixed(digits)} ${unit}`;
}

export function us(value: number): string {
  return `${value.toFixed(0)} µs`;
}
