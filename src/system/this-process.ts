/** What the daemon needs to know of its own process, and the signals that it sends to others. */

export const thisProcess = {
  pid: process.pid,
  platform: process.platform,
  /** Runs once in the next turn of the event loop, after the I/O of this one. */
  nextTurn(run: () => void): void {
    setImmediate(run);
  },
  /** Kills the process group that `leaderPid` leads; nothing if there is none. */
  killGroup(leaderPid: number): void {
    try {
      process.kill(-leaderPid, "SIGKILL");
    } catch {
      // It has ended meanwhile.
    }
  },
};
