/**
 * What a child sees of the daemon's environment: a short list that programs need to run at all, and what the operator
 * named for its agent.
 *
 * Invariant: an allow-list. Our own variables (`DELEGATE_MCP_*`, `DELEGATE_CHILD_*`) are never handed on.
 */

type Environment = Readonly<Record<string, string | undefined>>;

const NEEDED: ReadonlySet<string> = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "LANGUAGE",
  "TZ",
  "TMPDIR",
  "TERM",
  "XDG_CONFIG_HOME",
  "XDG_DATA_HOME",
  "XDG_CACHE_HOME",
  "XDG_STATE_HOME",
  "XDG_RUNTIME_DIR",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "NODE_EXTRA_CA_CERTS",
]);

/** The environment of an agent's children; `names` are the operator's additions. */
export function childEnvironment(environment: Environment, names: readonly string[]): Record<string, string> {
  const wanted = new Set(names);
  const child: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    const handedOn = NEEDED.has(name) || name.startsWith("LC_") || wanted.has(name);
    if (handedOn && value !== undefined && !name.startsWith("DELEGATE_")) child[name] = value;
  }
  return child;
}
