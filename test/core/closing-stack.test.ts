/** Closing in reverse order, completely, once. */

import { describe, expect, it } from "vitest";

import { createClosingStack } from "../../src/core/closing-stack.ts";

function resource(name: string, closed: string[], fails = false): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      closed.push(name);
      if (fails) throw new Error(`${name} does not close`);
    },
  };
}

describe("a closing stack", () => {
  it("closes in reverse order, and only once", async () => {
    const closed: string[] = [];
    const stack = createClosingStack();
    for (const name of ["a", "b", "c"]) stack.use(resource(name, closed));
    await stack[Symbol.asyncDispose]();
    await stack[Symbol.asyncDispose]();
    expect(closed).toEqual(["c", "b", "a"]);
  });

  it("closes the others although one fails, and says so", async () => {
    const closed: string[] = [];
    const stack = createClosingStack();
    stack.use(resource("a", closed));
    stack.use(resource("b", closed, true));
    await expect(stack[Symbol.asyncDispose]()).rejects.toThrow("b does not close");
    expect(closed).toEqual(["b", "a"]);
  });

  it("that was moved closes nothing; its heir closes all", async () => {
    const closed: string[] = [];
    const stack = createClosingStack();
    stack.use(resource("a", closed));
    const heir = stack.move();
    await stack[Symbol.asyncDispose]();
    expect(closed).toEqual([]);
    await heir[Symbol.asyncDispose]();
    expect(closed).toEqual(["a"]);
  });
});
