/**
 * Requests that wait for an answer from the other side.
 *
 * Invariant: when nobody is left to answer, all of them get `lost`; none waits for ever.
 */

export type Pending<Answer> = {
  readonly lost: Answer;
  open(number: number): Promise<Answer>;
  settle(number: number, answer: Answer): void;
  loseAll(): void;
};

export function createPending<Answer>(lost: Answer): Pending<Answer> {
  const waiting = new Map<number, (answer: Answer) => void>();
  const settle = (number: number, answer: Answer): void => {
    waiting.get(number)?.(answer);
    waiting.delete(number);
  };
  return {
    lost,
    settle,
    open: (number) =>
      new Promise((resolve) => {
        waiting.set(number, resolve);
      }),
    loseAll() {
      for (const number of waiting.keys()) settle(number, lost);
    },
  };
}
