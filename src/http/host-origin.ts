/**
 * Which `Host` and `Origin` a request may name: the guard against web pages that reach a loopback server by DNS
 * rebinding or by a plain cross-site request (X1).
 *
 * Invariant: exact match of whole names; a missing Host and the Origin `null` are refused, an absent Origin is not (only
 * browsers send one).
 */

export type HostOriginRules = {
  /** Additional host names (`box.example`: any port) or names with a port (`box.example:8443`: that port only). */
  readonly allowedHosts: readonly string[];
  /** Additional origins, whole (`https://box.example`, `vscode-webview://…`). */
  readonly allowedOrigins: readonly string[];
};

export type HostOriginGuard = {
  allowsHost(host: string | undefined): boolean;
  allowsOrigin(origin: string | undefined): boolean;
};

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);
const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/;
const WEB_ORIGIN = /^https?:\/\/(.+)$/;

export function createHostOriginGuard(rules: HostOriginRules): HostOriginGuard {
  const hosts = new Set(rules.allowedHosts.map((host) => host.toLowerCase()));
  const origins = new Set(rules.allowedOrigins.map((origin) => origin.toLowerCase().replace(/\/$/, "")));
  return {
    allowsHost(host) {
      if (host === undefined) return false;
      const lower = host.toLowerCase();
      const name = nameOf(lower);
      return name !== null && (LOOPBACK_NAMES.has(name) || hosts.has(name) || hosts.has(lower));
    },
    allowsOrigin(origin) {
      if (origin === undefined) return true;
      const lower = origin.toLowerCase();
      if (origins.has(lower)) return true;
      const host = WEB_ORIGIN.exec(lower)?.[1];
      const name = host === undefined ? null : nameOf(host);
      return name !== null && LOOPBACK_NAMES.has(name);
    },
  };
}

/** The name in `name` or `name:port`; null if it is neither. */
function nameOf(host: string): string | null {
  return HOST.exec(host)?.[1] ?? null;
}
