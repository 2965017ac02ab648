/**
 * The configuration in force as rows: what, and who said so.
 */

import type { Origins } from "./load-config.ts";
import { describeOrigin, type SettingOrigin } from "./problem.ts";
import { type Config, SETTINGS } from "./schema.ts";

export type ExplainedSetting = {
  readonly key: string;
  readonly value: unknown;
  readonly origin: SettingOrigin;
  /** `--port`, `DELEGATE_MCP_PORT`, a path, `default`. */
  readonly originText: string;
};

/** Every setting in the order of the table. */
export function explainConfig(config: Config, origins: Origins): readonly ExplainedSetting[] {
  return SETTINGS.map(({ key }) => {
    const origin = origins[key] ?? { kind: "default" };
    return { key, value: valueAt(config, key), origin, originText: describeOrigin(origin) };
  });
}

function valueAt(config: Config, key: string): unknown {
  return key.split(".").reduce<unknown>((value, part) => {
    return typeof value === "object" && value !== null
      ? Object.entries(value).find(([name]) => name === part)?.[1]
      : undefined;
  }, config);
}
