/**
 * What `serve` needs of the composition root: start, what to tell when it runs, and how to end it.
 */

import type { LoadedConfig } from "../config/load-config.ts";
import type { Output } from "./io.ts";

export type StartDaemon = (input: StartDaemonInput) => Promise<StartDaemonResult>;

export type StartDaemonInput = {
  readonly loaded: LoadedConfig;
  readonly version: string;
  /** Where the log goes. */
  readonly stderr: Output;
};

export type StartDaemonResult =
  | { readonly kind: "started"; readonly ready: Ready; stop(mode: StopMode): Promise<void> }
  | {
      readonly kind: "refused";
      /** `already_running`, `port_busy`, `locked`, `file_open`, … */
      readonly reason: string;
      readonly message: string;
      /** What to do, where `serve` does not know that by the reason. */
      readonly fix?: string;
      /** Where our own daemon on the same data directory listens, if that is who holds it. */
      readonly url: string | null;
    };

/** `hand_over`: children are left to the guard for a returning daemon. `stop`: they are stopped now, to resume later. */
export type StopMode = "hand_over" | "stop";

export type Ready = {
  readonly mcpUrl: string;
  readonly dashboardUrl: string;
  readonly dataDir: string;
  readonly tokenFile: string;
  readonly pid: number;
  readonly version: string;
  readonly contractVersion: number;
};
