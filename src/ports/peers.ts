/**
 * Who is at the other end of a connection on this machine.
 */

import type { Mark } from "../core/ids.ts";

export type Peers = {
  /**
   * The mark of the process that holds the other end of a loopback connection, of whatever daemon; null if it has none, or if
   * that cannot be found out here (containers, other systems). Never rejects; takes at most about 250 ms.
   */
  markOf(connection: PeerAddress): Promise<Mark | null>;
};

export type PeerAddress = {
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  readonly localPort: number | undefined;
};
