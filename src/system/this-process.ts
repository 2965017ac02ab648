/** What the daemon needs to know of its own process. */

export const thisProcess = {
  pid: process.pid,
  /** Runs once in the next turn of the event loop, after the I/O of this one. */
  nextTurn(run: () => void): void {
    setImmediate(run);
  },
};
