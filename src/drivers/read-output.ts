/**
 * Reading a child's stream until it ends or nobody wants it any more.
 *
 * Invariant: an abort ends the reading at once, also while no byte comes, and tells the stream that nobody reads on.
 * Invariant: nothing is left registered on the signal, however many chunks came.
 */

/** `onChunk` is awaited, so whoever is slow slows the child down. Rejects only for `onChunk`. */
export async function readOutput(
  stream: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  onChunk: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  for await (const chunk of chunksUntilAborted(stream, signal)) await onChunk(chunk);
}

/** The same as a stream of its own, for readers of lines. */
export async function* chunksUntilAborted(
  stream: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  const iterator = stream[Symbol.asyncIterator]();
  let unread = true;
  try {
    for (;;) {
      const result = await nextUnlessAborted(iterator, signal);
      if (result === null) return;
      unread = result.done !== true;
      if (result.done === true) return;
      yield result.value;
    }
  } finally {
    if (unread) iterator.return?.().catch(() => undefined);
  }
}

/** Resolves when aborted; dispose it to leave nothing on the signal. */
export function untilAborted(signal: AbortSignal): Disposable & { readonly aborted: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) resolve();
  const abort = (): void => resolve();
  signal.addEventListener("abort", abort, { once: true });
  return { aborted: promise, [Symbol.dispose]: () => signal.removeEventListener("abort", abort) };
}

function nextUnlessAborted<Value>(
  iterator: AsyncIterator<Value>,
  signal: AbortSignal,
): Promise<IteratorResult<Value> | null> {
  return new Promise((resolve, reject) => {
    const abort = (): void => resolve(null);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    const settle = (result: IteratorResult<Value> | null): void => {
      signal.removeEventListener("abort", abort);
      resolve(result);
    };
    iterator.next().then(settle, reject);
  });
}
