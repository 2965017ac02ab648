/**
 * What has been opened is closed again, in reverse order. The language's own `AsyncDisposableStack` is missing in Node 22.
 *
 * Invariant: everything is closed, also if closing one of them fails; the first failure is then thrown.
 */

export type ClosingStack = AsyncDisposable & {
  /** Closes the resource with the stack. */
  use<Resource extends AsyncDisposable>(resource: Resource): Resource;
  /** Hands everything over to a new stack; this one closes nothing any more. */
  move(): ClosingStack;
};

export function createClosingStack(opened: readonly AsyncDisposable[] = []): ClosingStack {
  let resources = [...opened];
  const taken = (): AsyncDisposable[] => {
    const all = resources;
    resources = [];
    return all;
  };
  return {
    use(resource) {
      resources.push(resource);
      return resource;
    },
    move: () => createClosingStack(taken()),
    async [Symbol.asyncDispose]() {
      const failures: unknown[] = [];
      for (const resource of taken().reverse()) {
        try {
          await resource[Symbol.asyncDispose]();
        } catch (error) {
          failures.push(error);
        }
      }
      if (failures.length > 0) throw failures[0];
    },
  };
}
