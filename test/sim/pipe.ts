/**
 * A pipe between a simulated process and whoever reads it: what was written before the end is still read.
 */

export type Pipe<Item> = {
  put(item: Item): void;
  /** Nothing more comes. */
  close(): void;
  /** Read once, in order. `gate` is awaited before each item is handed over; where it rejects, reading ends so. */
  read(gate: () => Promise<void>): AsyncIterable<Item>;
};

export function createPipe<Item>(): Pipe<Item> {
  const items: Item[] = [];
  let closed = false;
  let wake: () => void = () => undefined;

  return {
    put(item) {
      if (closed) return;
      items.push(item);
      wake();
    },
    close() {
      closed = true;
      wake();
    },
    async *read(gate) {
      for (;;) {
        const item = items.shift();
        if (item !== undefined) {
          await gate();
          yield item;
        } else if (closed) {
          return;
        } else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    },
  };
}
