/**
 * What comes of a command: events, a refusal for whoever asked, or nothing.
 */

import type { TaskEventBody } from "./event.ts";
import type { Rejection } from "./rejection.ts";

export type Decision =
  | { readonly kind: "accepted"; readonly events: readonly TaskEventBody[] }
  /** Told to the caller. */
  | Rejection
  /** Nothing to do, for a reason that only the daemon itself cares about. */
  | { readonly kind: "ignored"; readonly why: Ignored };

export type Ignored = "stale_epoch" | "not_startable" | "not_lost" | "no_such_task";
