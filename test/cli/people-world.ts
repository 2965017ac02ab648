/**
 * A command line in a scratch folder against the real routes for people, with scripted tools behind them.
 */

import { type PeopleOptions, type PeopleServer, startPeopleServer } from "../support/people-server.ts";
import { type CliWorld, createCliWorld, type Ran, type Running, type RunOptions } from "./cli-world.ts";

export type PeopleWorld = AsyncDisposable & {
  readonly dir: string;
  readonly server: PeopleServer;
  /** Runs a command with the token of this name. */
  run(args: readonly string[], options?: RunOptions & { readonly name?: string }): Promise<Ran>;
  start(args: readonly string[], options?: RunOptions & { readonly name?: string }): Running;
};

export async function createPeopleWorld(options: PeopleOptions = {}): Promise<PeopleWorld> {
  const server = await startPeopleServer(options);
  const cli: CliWorld = await createCliWorld();
  const start: PeopleWorld["start"] = (args, { name = "alice", env, ...more } = {}) =>
    cli.start([...args, "--url", server.origin], {
      ...more,
      env: { NO_COLOR: "1", DELEGATE_MCP_TOKEN: `token-of-${name}`, ...env },
    });
  return {
    dir: cli.dir,
    server,
    start,
    run: (args, more) => start(args, more).ended,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await cli[Symbol.asyncDispose]();
    },
  };
}
