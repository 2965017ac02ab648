/**
 * How work fails: the classes of contract §6 and the evidence they are read from.
 *
 * Invariant: a class name is never reused for another meaning.
 * Absent on purpose: sentences. Words for models live in `mcp/wording.ts`.
 */

export const FAILURE_CLASSES = [
  "provider_transient",
  "edge_block",
  "transport",
  "quota",
  "auth",
  "billing",
  "bad_request",
  "config",
  "refused",
  "max_turns",
  "max_tokens",
  "deadline",
  "no_result",
  "spawn_error",
  "exit_error",
  "lost",
  "context_lost",
  "input_expired",
  "workspace_missing",
  "host_unreachable",
  "survivors",
  "continued_elsewhere",
  "unknown",
] as const;

export type FailureClass = (typeof FAILURE_CLASSES)[number];

/** `passing` heals by itself, `definitive` needs a change by somebody, `unknown` passes a bounded number of times. */
export type FaultNature = "passing" | "definitive" | "unknown";

/** What a driver saw when a turn went wrong; absent fields were not to be had. Child text never decides alone. */
export type FaultEvidence = {
  /** HTTP status of the provider's answer. */
  readonly httpStatus?: number;
  /** Text or body of the error, at most 2,000 characters; only its shape is looked at. */
  readonly text?: string;
  /** The agent's own word for the error (`rate_limit`, `billing_error`, …). */
  readonly providerKind?: string;
  /** Why the agent says it stopped, where that is no success. */
  readonly stopReason?: string;
  /** Milliseconds the provider asked to wait. */
  readonly retryAfterMs?: number;
  /** The process ended without a verdict. */
  readonly exit?: { readonly code: number | null; readonly signal: string | null };
  /** The process could not be started; the system's error code (`ENOENT`, `EACCES`, `EAGAIN`). */
  readonly spawnCode?: string;
  /** The connection to the provider broke (reset, refused, DNS, stall). */
  readonly transport?: boolean;
  /** The turn ended well but there is neither text nor a changed file. */
  readonly empty?: boolean;
  /** The program asks to be run again as it is (exit status 75 of a command child). */
  readonly rerun?: boolean;
  /** The child's own conversation is not there any more: its agent does not know the session. */
  readonly contextLost?: boolean;
};

/** A classified fault of one attempt. */
export type Fault = {
  readonly class: FailureClass;
  readonly nature: FaultNature;
  readonly httpStatus: number | null;
  readonly stopReason: string | null;
  readonly retryAfterMs: number | null;
};
