/**
 * The sockets of this network namespace, from /proc/net: which inode belongs to the other end of a connection.
 *
 * Invariant: both addresses count, not the ports alone: two clients may use one port number, on 127.0.0.1 and on ::1.
 */

import { readFileSync } from "node:fs";
import { SocketAddress } from "node:net";
import { endianness } from "node:os";

export type Connection = { readonly address: string; readonly port: number; readonly localPort: number };

const TABLES = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
const BYTES_OF_WORD = 4;
const BYTES_OF_IPV6 = 16;

/** `socket:[…]`, as a descriptor's link shows it, of each socket here that is bound to the connection's remote end. */
export function peerSockets(connection: Connection): ReadonlySet<string> {
  return new Set(TABLES.flatMap((table) => socketsIn(tableText(table), connection)));
}

/** `0: 0100007F:A2C4 0100007F:1F90 01 tx:rx tr:when retrnsmt uid timeout inode …`; a socket that nobody holds has inode 0. */
export function socketsIn(table: string, { address, port, localPort }: Connection): readonly string[] {
  const wanted = plainAddress(address);
  const line = new RegExp(
    `^ *\\d+: ((?:[0-9A-F]{8}){1,4}):${hexPort(port)} [0-9A-F]+:${hexPort(localPort)} [0-9A-F]{2}(?: +\\S+){5} +([1-9]\\d*) `,
    "gm",
  );
  return [...table.matchAll(line)].flatMap(([, local = "", inode = ""]) =>
    addressOf(local) === wanted ? [`socket:[${inode}]`] : [],
  );
}

/** An IPv4 address in IPv6 clothes is that IPv4 address; a zone is no part of an address. */
export function plainAddress(address: string): string {
  return address.replace(/%.*$/, "").replace(/^::ffff:(?=\d+\.)/i, "");
}

/** The kernel prints addresses as 32-bit words in the byte order of the machine. */
function addressOf(hex: string): string {
  const bytes = Buffer.from(hex, "hex");
  if (endianness() === "LE") bytes.swap32();
  if (bytes.length === BYTES_OF_WORD) return bytes.join(".");
  if (bytes.length !== BYTES_OF_IPV6) return "";
  const groups = bytes.toString("hex").replaceAll(/(?<=^(?:.{4})+)/g, ":");
  return plainAddress(new SocketAddress({ family: "ipv6", address: groups.replace(/:$/, "") }).address);
}

function hexPort(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, "0");
}

/** Empty where there is no such table (IPv6 turned off). */
function tableText(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
