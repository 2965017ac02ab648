/**
 * Version of the outward contract: what callers, operators and tests may rely on. Told by the ready line, `list_agents`
 * and `delegate-mcp version`.
 */

export const CONTRACT_VERSION = 1;
