/**
 * A child process that is none: a driver starts it, and it writes and ends as a test says.
 */

import type { Child, ChildEnd, Children } from "../../src/ports/children.ts";

export type ScriptedStream = AsyncIterable<Uint8Array> & { push(written: string | Uint8Array): void; end(): void };

function createScriptedStream(): ScriptedStream {
  const chunks: Uint8Array[] = [];
  let wake = Promise.withResolvers<void>();
  let ended = false;
  async function* read(): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const chunk = chunks.shift();
      if (chunk !== undefined) yield chunk;
      else if (ended) return;
      else await wake.promise;
    }
  }
  const stir = (): void => {
    wake.resolve();
    wake = Promise.withResolvers<void>();
  };
  return {
    [Symbol.asyncIterator]: read,
    push(written) {
      chunks.push(typeof written === "string" ? Buffer.from(written) : written);
      stir();
    },
    end() {
      ended = true;
      stir();
    },
  };
}

export type ScriptedChild = {
  readonly children: Children;
  readonly stdout: ScriptedStream;
  readonly stderr: ScriptedStream;
  end(how: ChildEnd): void;
};

/** `onWrite` sees what is written to its standard input. */
export function createScriptedChild(onWrite: (text: string) => void = () => undefined): ScriptedChild {
  const stdout = createScriptedStream();
  const stderr = createScriptedStream();
  const ended = Promise.withResolvers<ChildEnd>();
  const child: Child = {
    process: { pid: 1, startTime: "1", bootId: "b" },
    stdout,
    stderr,
    write: async (text) => onWrite(text),
    closeStdin: () => undefined,
    ended: ended.promise,
  };
  const children: Children = {
    spawn: async () => ({ kind: "started", child }),
    stop: async () => ({ kind: "survivors", survivors: [] }),
    heartbeat: () => undefined,
    release: async () => undefined,
    [Symbol.asyncDispose]: async () => undefined,
  };
  return {
    children,
    stdout,
    stderr,
    end(how: ChildEnd): void {
      stdout.end();
      stderr.end();
      ended.resolve(how);
    },
  };
}
