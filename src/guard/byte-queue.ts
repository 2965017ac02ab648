/**
 * Bytes on their way from the connection to the one who reads a child's stream.
 *
 * Invariant: what waits here is bounded by the sender's window; `onTaken` returns credit as the reader takes.
 * Invariant: once the reader has stopped (or never will start and says so by `return`), nothing is kept.
 */

export type ByteQueue = AsyncIterable<Uint8Array> & {
  push(bytes: Uint8Array): void;
  /** No more will come; what is there can still be read. */
  end(): void;
};

export type ByteQueueEvents = {
  onTaken(bytes: number): void;
  /** The reader stopped before the end. */
  onUnread(): void;
};

/** One reader; it gets the end at once if it asks a second time. */
export function createByteQueue(events: ByteQueueEvents): ByteQueue {
  const chunks: Uint8Array[] = [];
  let waiting: ((result: IteratorResult<Uint8Array, undefined>) => void) | null = null;
  let ended = false;
  let unread = false;
  const done = { done: true, value: undefined } as const;

  const hand = (value: Uint8Array): IteratorResult<Uint8Array, undefined> => {
    events.onTaken(value.length);
    return { done: false, value };
  };
  const finish = (): void => {
    waiting?.(done);
    waiting = null;
  };
  const iterator: AsyncIterator<Uint8Array, undefined> = {
    next() {
      const chunk = chunks.shift();
      if (chunk !== undefined) return Promise.resolve(hand(chunk));
      if (ended || unread) return Promise.resolve(done);
      return new Promise((resolve) => {
        finish();
        waiting = resolve;
      });
    },
    return() {
      if (!ended && !unread) events.onUnread();
      unread = true;
      chunks.length = 0;
      finish();
      return Promise.resolve(done);
    },
  };
  return {
    [Symbol.asyncIterator]: () => iterator,
    push(bytes) {
      if (unread || ended) return;
      const resolve = waiting;
      waiting = null;
      if (resolve === null) chunks.push(bytes);
      else resolve(hand(bytes));
    },
    end() {
      ended = true;
      finish();
    },
  };
}
