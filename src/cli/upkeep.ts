/**
 * `prune` and `host`: what retention removes, and what runs where.
 *
 * Invariant: nothing is removed unless `--yes` says so.
 */

import { z } from "zod";
import { type Command, refuse, withPerson } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { fail, note } from "./failure.ts";
import { refuseChild } from "./find-daemon.ts";
import { colorsFor, printJson, printPairs, printRows } from "./print.ts";

export type PruneOptions = { readonly dryRun?: boolean; readonly yes?: boolean };

const pruneSchema = z.looseObject({
  dryRun: z.boolean(),
  tasks: z.number(),
  transcripts: z.number(),
  receipts: z.number().nullable(),
});

export function prune(command: Command, options: PruneOptions): Promise<number> {
  const { io, options: globals } = command;
  return withPerson(command, "prune", async (api) => {
    const dryRun = options.dryRun === true || options.yes !== true;
    const reply = await api.data("/api/prune", { dryRun }, pruneSchema);
    if (reply.kind === "failure") return fail(io, globals, reply);
    if (reply.kind === "answer") return refuse(command, reply.answer);
    const { data } = reply;
    if (globals.json === true) printJson(io.stdout, data);
    else {
      const colors = colorsFor(io.stdout, io.env, globals.color === false);
      const { tasks, transcripts, receipts } = data;
      printPairs(io.stdout, colors, [
        ["tasks", tasks],
        ["transcripts", transcripts],
        ["receipts", receipts],
      ]);
    }
    if (options.dryRun === true || options.yes === true) {
      note(io, globals, data.dryRun ? "Nothing was removed: this is what would be." : "Removed.");
      return EXIT.ok;
    }
    note(io, globals, "Nothing was removed: this is what would be. Remove it: delegate-mcp prune --yes");
    return EXIT.usage;
  });
}

const hostSchema = z.looseObject({
  daemonId: z.string(),
  running: z.array(z.looseObject({ taskId: z.string(), attemptId: z.string(), pid: z.number().nullable() })),
  queued: z.number(),
  waiting: z.number(),
  others: z.number().optional(),
});

export function hostList(command: Command): Promise<number> {
  const { io, options } = command;
  return withPerson(command, "host", async (api) => {
    const reply = await api.data("/api/host", null, hostSchema);
    if (reply.kind === "failure") return fail(io, options, reply);
    if (reply.kind === "answer") return refuse(command, reply.answer);
    const { data } = reply;
    if (options.json === true) {
      printJson(io.stdout, { hosts: [data] });
      return EXIT.ok;
    }
    const colors = colorsFor(io.stdout, io.env, options.color === false);
    const children = data.running.length + (data.others ?? 0);
    printRows(io.stdout, colors, HOST_COLUMNS, [[data.daemonId, children, data.queued, data.waiting]]);
    if (io.stdout.isTTY && data.running.length > 0) {
      io.stdout.write("\n");
      const rows = data.running.map(({ taskId, attemptId, pid }) => [taskId, attemptId.slice(taskId.length + 1), pid]);
      printRows(io.stdout, colors, [{ title: "TASK" }, { title: "TRY" }, { title: "PROCESS" }], rows);
    }
    return EXIT.ok;
  });
}

const HOST_COLUMNS = [{ title: "HOST" }, { title: "CHILDREN" }, { title: "QUEUED" }, { title: "WAITS" }] as const;

/** This version runs on the host that it was started on, and that one cannot be forgotten. */
export function hostForget(command: Command, host: string): number {
  const refused = refuseChild(command.io, "`host`");
  if (refused !== null) return fail(command.io, command.options, refused);
  return fail(command.io, command.options, {
    kind: "failure",
    code: "one_host",
    exitCode: EXIT.notFound,
    what: `There is no host ${host} that could be forgotten.`,
    why: "This version runs its children on one host, the one of the daemon.",
    fix: "Give up processes that cannot be stopped: delegate-mcp cancel ID --abandon",
  });
}
