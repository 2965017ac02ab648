/**
 * The commands, their options and their help.
 *
 * Invariant: every end of a command is an exit code of `exit-codes.ts`, also where the command line itself is wrong.
 */

import { Command as Parser, CommanderError, InvalidArgumentError, Option } from "commander";
import type { Command } from "./command.ts";
import type { StartDaemon } from "./daemon.ts";
import { type ContinueOptions, continueTask, type DelegateOptions, delegate } from "./delegate.ts";
import { EXIT, EXIT_CODES_HELP } from "./exit-codes.ts";
import { fail, type GlobalOptions } from "./failure.ts";
import type { Io } from "./io.ts";
import { serve } from "./serve.ts";
import { configShow, type SettingsOptions } from "./settings.ts";
import { type CancelOptions, cancel, type ListOptions, list, show } from "./tasks.ts";
import { tokenAdd, tokenList, tokenRevoke } from "./token.ts";
import { version } from "./version.ts";
import { type WaitOptions, wait } from "./wait.ts";

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
    const what = error.message.replace(/^error: /, "").replace(/\s+/g, " ");
    const shown = error.code === "commander.help" ? "No command was given." : what;
    return fail(
      io,
      { json, debug },
      { kind: "failure", code: "usage", exitCode: EXIT.usage, what: shown, why: null, fix: "See: delegate-mcp --help" },
    );
  }
}

function createProgram(parts: ProgramParts, done: (exitCode: number) => void): Parser {
  const program = withGlobals(new Parser("delegate-mcp"), parts)
    .description("Delegates work between coding agents: no child is lost, doubled or misreported.")
    .version(`delegate-mcp ${parts.version}`, "-V, --version", "show the version")
    .addHelpText("after", `\n${EXIT_CODES_HELP}`);
  const run = (verb: Parser, work: (command: Command, ...operands: string[]) => Promise<number> | number): void => {
    verb.action(async () => {
      const options: GlobalOptions = program.opts();
      done(await work({ io: parts.io, options, version: parts.version }, ...verb.processedArgs.flat().map(String)));
    });
  };
  addServe(program, parts, run);
  addTaskVerbs(program, run);
  addTokenVerbs(program, run);
  addInformation(program, run);
  return program;
}

type Run = (verb: Parser, work: (command: Command, ...operands: string[]) => Promise<number> | number) => void;

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

function addTaskVerbs(program: Parser, run: Run): void {
  const delegateVerb = program
    .command("delegate")
    .argument("<text>", 'the task, or "-" for standard input')
    .description("hand a task to an agent; prints its id and leaves it running")
    .option("--key <key>", "name of this piece of work; the same key never starts a second child (default: a new one)")
    .option("--agent <name>", "agent to use (default: the configured one)")
    .option("--model <name>", "model to use")
    .option("--cwd <dir>", "directory to work in (default: the current one)")
    .addOption(new Option("--access <mode>", "what the child may do to files").choices(["read", "write"]))
    .option("--title <text>", "short name shown in lists")
    .option("--wait", "wait for the result and print it")
    .option("--timeout <seconds>", "with --wait: how long", seconds);
  run(delegateVerb, (command, text = "") => delegate(command, text, delegateVerb.opts<DelegateOptions>()));

  const waitVerb = program
    .command("wait")
    .argument("<id...>", "tasks, by id or unique beginning of one")
    .description("wait until a task has ended or asks something; never stops it")
    .option("--any", "until one of them has news (default)")
    .option("--all", "until all of them have ended")
    .option("--timeout <seconds>", "how long at most; then exit code 6", seconds);
  run(waitVerb, (command, ...ids) => wait(command, ids, waitVerb.opts<WaitOptions>()));

  const listVerb = program
    .command("list")
    .alias("ls")
    .description("show tasks, newest first")
    .option("--open", "only tasks that have not ended")
    .option("--unread", "only tasks whose result nobody has confirmed")
    .addOption(
      new Option("--status <status>", "only this status").choices([
        "working",
        "input_required",
        "completed",
        "failed",
        "cancelled",
      ]),
    )
    .option("--limit <n>", "how many at most", wholeNumber)
    .option("--cursor <text>", "go on from an earlier list");
  run(listVerb, (command) => list(command, listVerb.opts<ListOptions>()));

  const showVerb = program.command("show").argument("<id>", "task").description("show one task and its result");
  run(showVerb, (command, id = "") => show(command, id));

  const continueVerb = program
    .command("continue")
    .argument("<id>", "task")
    .argument("<text>", 'the message, or "-" for standard input')
    .description("send a further message to the child of a task, in the same conversation")
    .option("--key <key>", "name of this message (default: a new one)")
    .option("--after-settlement <n>", "send nothing if somebody has continued past this result", wholeNumber)
    .option("--wait", "wait for the result and print it")
    .option("--timeout <seconds>", "with --wait: how long", seconds);
  run(continueVerb, (command, id = "", text = "") =>
    continueTask(command, id, text, continueVerb.opts<ContinueOptions>()),
  );

  const cancelVerb = program
    .command("cancel")
    .argument("<id>", "task")
    .description("stop a task and everything it has started")
    .option("--reason <text>", "why, for the record")
    .option("--abandon", "give up processes that cannot be stopped, by name");
  run(cancelVerb, (command, id = "") => cancel(command, id, cancelVerb.opts<CancelOptions>()));
}

function addTokenVerbs(program: Parser, run: Run): void {
  const token = program.command("token").description("manage who may use the daemon");
  const add = token
    .command("add")
    .argument("<name>", "the caller, such as codex; several tokens may have one name")
    .description("make a token and show it once")
    .option("--scope <list>", "comma-separated: read, delegate, admin", "read,delegate");
  run(add, (command, name = "") => tokenAdd(command, name, add.opts<{ scope?: string }>()));
  run(token.command("list").description("show the tokens that hold"), (command) => tokenList(command));
  const revoke = token
    .command("revoke")
    .argument("<name-or-id>", "one token by id, or all of a name")
    .description("make tokens invalid at once");
  run(revoke, (command, nameOrId = "") => tokenRevoke(command, nameOrId));
}

function addInformation(program: Parser, run: Run): void {
  const config = program.command("config").description("look at the configuration");
  const showConfig = withSettings(config.command("show"))
    .description("show every setting in force")
    .option("--origin", "and where each comes from");
  run(showConfig, (command) => configShow(command, showConfig.opts<SettingsOptions & { origin?: boolean }>()));
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

function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0 || value > 31_536_000) {
    throw new InvalidArgumentError("Expected seconds.");
  }
  return value;
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("Expected a whole number.");
  return Number(text);
}
