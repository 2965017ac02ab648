/**
 * The operator's list of receivers as notifiers.
 *
 * Invariant: whether secrets are there was checked with the configuration; here a missing one is a programming error, and
 * nothing is ever signed with an empty key.
 */

import { assert } from "../core/assert.ts";
import type { Clock } from "../ports/clock.ts";
import type { Notifier } from "../ports/notifier.ts";
import { createCommandHook } from "./create-command-hook.ts";
import { createWebhook } from "./create-webhook.ts";

export type NotifyTarget =
  | { readonly webhook: string; readonly secretEnv: string }
  | { readonly command: readonly [string, ...string[]] };

export type NotifiersOptions = {
  readonly targets: readonly NotifyTarget[];
  /** Where the variables that `secretEnv` names are looked up. */
  readonly environment: Readonly<Record<string, string>>;
  /** The whole environment of programs that are told. */
  readonly commandEnv: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly killGroup: (leaderPid: number) => void;
};

export function createNotifiers(options: NotifiersOptions): readonly Notifier[] {
  const { targets, environment, commandEnv, clock, killGroup } = options;
  return targets.map((target) => {
    if ("command" in target) return createCommandHook({ command: target.command, env: commandEnv, clock, killGroup });
    const secret = environment[target.secretEnv] ?? "";
    assert(secret !== "", `${target.secretEnv} holds the secret of a webhook`);
    return createWebhook({ url: target.webhook, secret, clock });
  });
}
