/**
 * The commands, their options and their help.
 *
 * Invariant: every end of a command is an exit code of `exit-codes.ts`, also where the command line itself is wrong.
 */

import { Argument, Command as Parser, CommanderError, Option } from "commander";
import { completion, SHELLS } from "./completion.ts";
import { assert } from "../core/assert.ts";
import type { StartDaemon } from "./daemon.ts";
import { type ExportOptions, exportTask } from "./export.ts";
import { EXIT, EXIT_CODES_HELP } from "./exit-codes.ts";
import { fail, type GlobalOptions } from "./failure.ts";
import type { Io } from "./io.ts";
import { serve } from "./serve.ts";
import { configShow, type SettingsOptions } from "./settings.ts";
import { addTaskVerbs, type Run } from "./task-verbs.ts";
import { tokenAdd, tokenList, tokenRevoke } from "./token.ts";
import { hostForget, hostList, type PruneOptions, prune } from "./upkeep.ts";
import { version } from "./version.ts";

export type ProgramParts = {
  readonly io: Io;
  readonly version: string;
  /** Loads the daemon, which the other commands do without. */
  readonly loadDaemon: () => Promise<StartDaemon>;
  /** Longest orderly stop of a daemon; 9.5 s unless told otherwise. */
  readonly stopMaxMs?: number;
};

/** Runs one command line (without program names) and returns its exit code. Never rejects for what a user did. */
export async function runCommandLine(args: readonly string[], parts: ProgramParts): Promise<number> {
  const { io } = parts;
  let exitCode: number = EXIT.ok;
  const program = createProgram(parts, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (error) {
    const json = args.includes("--json");
    const debug = args.includes("--debug");
    if (!(error instanceof CommanderError)) {
      const what = error instanceof Error ? error.message : String(error);
      return fail(
        io,
        { json, debug },
        {
          kind: "failure",
          code: "internal",
          exitCode: EXIT.unreachable,
          what,
          why: "That is a defect of delegate-mcp.",
          fix: "Run it again with --debug and report what it prints.",
          cause: error,
        },
      );
    }
    if (error.exitCode === 0) return EXIT.ok;
    const asked = ["delegate-mcp", ...verbsIn(args, program)].join(" ");
    const what = error.message.replace(/^error: /, "").replace(/\s+/g, " ");
    const shown = error.code === "commander.help" ? "No command was given." : what;
    return fail(
      io,
      { json, debug },
      { kind: "failure", code: "usage", exitCode: EXIT.usage, what: shown, why: null, fix: `See: ${asked} --help` },
    );
  }
}

/** The verbs of a command line, as far as they are ours: whose help is to be read. */
function verbsIn(args: readonly string[], parser: Parser): readonly string[] {
  for (const [at, arg] of args.entries()) {
    const verb = parser.commands.find((known) => known.name() === arg || known.aliases().includes(arg));
    if (verb !== undefined) return [verb.name(), ...verbsIn(args.slice(at + 1), verb)];
  }
  return [];
}

function createProgram(parts: ProgramParts, done: (exitCode: number) => void): Parser {
  const program = withGlobals(new Parser("delegate-mcp"), parts)
    .description("Delegates work between coding agents: no child is lost, doubled or misreported.")
    .version(`delegate-mcp ${parts.version}`, "-V, --version", "show the version")
    .addHelpText("after", `\n${EXIT_CODES_HELP}`);
  const run: Run = (verb, work) => {
    verb.action(async () => {
      const options: GlobalOptions = program.opts();
      const operands = verb.processedArgs.flat().filter((operand) => operand !== undefined);
      done(await work({ io: parts.io, options, version: parts.version }, ...operands.map(String)));
    });
  };
  addServe(program, parts, run);
  addTaskVerbs(program, run);
  addUpkeepVerbs(program, run);
  addTokenVerbs(program, run);
  addInformation(program, run);
  return program;
}

function withGlobals(program: Parser, { io }: ProgramParts): Parser {
  return program
    .option("--json", "one JSON object on standard output instead of text")
    .option("--url <url>", "daemon to talk to (address or MCP URL; token from DELEGATE_MCP_TOKEN)")
    .option("--data-dir <dir>", "data directory, if not the usual one")
    .option("--config <file>", "configuration file, if not the usual one")
    .option("--no-color", "no colours (also: NO_COLOR)")
    .option("--debug", "show where an error comes from")
    .helpOption("-h, --help", "show this help")
    .configureHelp({ showGlobalOptions: true, helpWidth: 100 })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      // The failure is shown once, in our own form.
      outputError: () => undefined,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .exitOverride();
}

function addServe(program: Parser, parts: ProgramParts, run: Run): void {
  const verb = withSettings(program.command("serve"))
    .description("run the daemon in the foreground")
    .addHelpText(
      "after",
      "\nSettings also come from DELEGATE_MCP_* variables and the configuration file.\nWhat is in force: delegate-mcp config show --origin",
    );
  run(verb, async (command) => serve(command, verb.opts<SettingsOptions>(), await parts.loadDaemon(), parts.stopMaxMs));
}

function addTokenVerbs(program: Parser, run: Run): void {
  const token = program.command("token").description("manage who may use the daemon");
  const add = token
    .command("add")
    .argument("<name>", "the caller, such as codex; several tokens may have one name")
    .description("make a token and show it once")
    .option("--scope <list>", "comma-separated: read, delegate, admin", "read,delegate");
  run(add, (command, name = "") => tokenAdd(command, name, add.opts<{ scope?: string }>()));
  run(token.command("list").description("show the tokens that are valid"), (command) => tokenList(command));
  const revoke = token
    .command("revoke")
    .argument("<name-or-id>", "one token by id, or all of a name")
    .description("make tokens invalid at once");
  run(revoke, (command, nameOrId = "") => tokenRevoke(command, nameOrId));
}

function addUpkeepVerbs(program: Parser, run: Run): void {
  const exportVerb = program
    .command("export")
    .argument("<id>", "task")
    .description("write everything that is kept of a task, a JSON object a line")
    .option("--out <file>", "into this new file instead of standard output");
  run(exportVerb, (command, id = "") => exportTask(command, id, exportVerb.opts<ExportOptions>()));
  const pruneVerb = program
    .command("prune")
    .description("remove what is past its retention now (admins)")
    .option("--dry-run", "only count it")
    .option("--yes", "remove it; without this nothing is removed");
  run(pruneVerb, (command) => prune(command, pruneVerb.opts<PruneOptions>()));
  const host = program.command("host").description("see what runs where");
  run(host.command("list", { isDefault: true }).description("show the host and its children"), hostList);
  const forget = host
    .command("forget")
    .argument("<host>", "host, as host list names it")
    .description("give up the children of a host that is gone");
  run(forget, (command, name = "") => hostForget(command, name));
}

function addInformation(program: Parser, run: Run): void {
  const config = program.command("config").description("look at the configuration");
  const showConfig = withSettings(config.command("show"))
    .description("show every setting in force")
    .option("--origin", "and where each comes from");
  run(showConfig, (command) => configShow(command, showConfig.opts<SettingsOptions & { origin?: boolean }>()));
  run(program.command("doctor").description("check that everything is right, and say what to do"), async (command) =>
    (await import("./doctor.ts")).doctor(command),
  );
  const completionVerb = program
    .command("completion")
    .addArgument(new Argument("<shell>", "which shell").choices([...SHELLS]))
    .description("print a script that completes commands and options")
    .addHelpText("after", "\nTry it in bash: source <(delegate-mcp completion bash)");
  run(completionVerb, (command, name) => {
    const shell = SHELLS.find((known) => known === name);
    assert(shell !== undefined, "the parser lets known shells pass only");
    return completion(command, program, shell);
  });
  const demo = program.command("demo").description("show one delegation that survives a cut wire and a killed daemon");
  run(demo, async ({ io }) => (await import("./demo.ts")).demo(io));
  run(program.command("version").description("show the version"), version);
}

function withSettings(verb: Parser): Parser {
  return verb
    .option("--host <host>", "address to listen on (default: 127.0.0.1)")
    .option("--port <port>", "port to listen on, 0 for a free one (default: 4517)")
    .option("--no-auth", "ask for no token (loopback only)")
    .option("--env-file <file>", "read variables from this file; the real environment comes first")
    .option("--log-level <level>", "debug, info, warn, error or silent (default: info)")
    .addOption(new Option("--database-url <url>").hideHelp());
}
