/**
 * `agents`: who can be a child here, and how they are.
 */

import { z } from "zod";
import { type Command, refuse, withDaemon } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { fail, note } from "./failure.ts";
import { colorsFor, printJson, printRows } from "./print.ts";

const agentsSchema = z.looseObject({
  agents: z.array(
    z.looseObject({
      name: z.string(),
      driver: z.string().optional(),
      isDefault: z.boolean().optional(),
      default: z.boolean().optional(),
      model: z.string().optional(),
      permissions: z.array(z.string()).optional(),
      health: z.string().optional(),
      healing: z.number().optional(),
    }),
  ),
});

export function agents(command: Command): Promise<number> {
  const { io, options } = command;
  return withDaemon(command, async (api) => {
    const reply = await api.get("/api/agents", {});
    if (reply.kind === "failure") return fail(io, options, reply);
    const { answer } = reply;
    if (answer.error !== undefined) return refuse(command, answer);
    if (options.json === true) {
      printJson(io.stdout, answer);
      return EXIT.ok;
    }
    const listed = agentsSchema.safeParse(answer);
    const rows = (listed.success ? listed.data.agents : []).map((agent) => [
      agent.name,
      agent.driver,
      agent.health === undefined || (agent.healing ?? 0) === 0
        ? agent.health
        : `${agent.health}, ${agent.healing} healing`,
      (agent.isDefault ?? agent.default) === true ? "default" : null,
      agent.model,
      agent.permissions?.join(","),
    ]);
    if (rows.length > 0) printRows(io.stdout, colorsFor(io.stdout, io.env, options.color === false), COLUMNS, rows);
    else
      note(io, options, 'No agents. Add one under "agents" in the configuration file; delegate-mcp doctor names it.');
    return EXIT.ok;
  });
}

const COLUMNS = [
  { title: "AGENT" },
  { title: "DRIVER" },
  { title: "HEALTH" },
  { title: "" },
  { title: "MODEL", wide: true },
  { title: "PERMISSIONS", wide: true },
] as const;
