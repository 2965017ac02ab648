/**
 * Small words that answers are made of: names, ages, spans, lists.
 */

import type { TaskView } from "../core/describe.ts";
import type { Rejection } from "../core/rejection.ts";
import { shownPath, shownTitle } from "./task-fields.ts";

/** The title is the caller's own text; quotes keep it apart from ours. */
export function named(view: TaskView): string {
  // A quote inside would end the quotes.
  return `"${shownTitle(view.spec.title).replaceAll('"', "'")}"`;
}

export function nowOf(view: TaskView): number {
  return view.createdAtMs + view.ageMs;
}

export function until(view: TaskView, atMs: number): string {
  const leftMs = atMs - nowOf(view);
  return leftMs <= 0 ? "now" : `in ${span(leftMs)}`;
}

export function ago(ms: number): string {
  return ms < 1_000 ? "just now" : `${span(ms)} ago`;
}

/** A time span in its largest fitting unit, and the next one for hours. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) return `${Math.round(hours / 24)} days`;
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}

export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Sentences, without those that are not there. */
export function joined(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(" ");
}

const LISTED_MAX = 8;

/** Some of a list; how many more there are. */
export function listOf(value: Rejection["detail"][string] | undefined): string {
  if (value === undefined) return "";
  if (typeof value !== "object") return String(value);
  const shown = value.slice(0, LISTED_MAX).map((text) => shownPath(text, 80));
  return value.length <= LISTED_MAX ? shown.join(", ") : `${shown.join(", ")} and ${value.length - LISTED_MAX} more`;
}
