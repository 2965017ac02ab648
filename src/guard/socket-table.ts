/**
 * The sockets of this network namespace, from /proc/net: which inode belongs to the other end of a connection. The tables are
 * read once for however many connections are asked about.
 *
 * Invariant: both addresses count, not the ports alone: two clients may use one port number, on 127.0.0.1 and on ::1.
 */

import { readFile } from "node:fs/promises";
import { SocketAddress } from "node:net";
import { endianness } from "node:os";
import type { Breathe } from "./breather.ts";

export type Connection = { readonly address: string; readonly port: number; readonly localPort: number };

/** `socket:[…]`, as a descriptor's link shows it, of each socket here that is bound to the connection's remote end. */
export type SocketTable = { socketsOf(connection: Connection): readonly string[] };

const TABLES = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/** `0: 0100007F:A2C4 0100007F:1F90 01 tx:rx tr:when retrnsmt uid timeout inode …`; a socket that nobody holds has inode 0. */
const LINE =
  /^ *\d+: ((?:[0-9A-F]{8}){1,4}):([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]{2}(?: +\S+){5} +([1-9]\d*) /gm;
const BYTES_OF_WORD = 4;
const BYTES_OF_IPV6 = 16;

/** Lets others run between its lines: there are as many as there are connections. */
export async function readSocketTable(breathe: Breathe): Promise<SocketTable> {
  const texts = await Promise.all(TABLES.map(tableText));
  return tableOf(texts.join(""), breathe);
}

export async function tableOf(text: string, breathe: Breathe): Promise<SocketTable> {
  const rows = new Map<string, string[]>();
  for (const { address, port, farPort, socket } of socketRows(text)) {
    const key = keyOf(address, port, farPort);
    const others = rows.get(key);
    if (others === undefined) rows.set(key, [socket]);
    else others.push(socket);
    await breathe();
  }
  return {
    socketsOf: ({ address, port, localPort }) => rows.get(keyOf(plainAddress(address), port, localPort)) ?? [],
  };
}

function keyOf(address: string, port: number, farPort: number): string {
  return `${address} ${port} ${farPort}`;
}

export type SocketRow = {
  readonly address: string;
  readonly port: number;
  readonly farPort: number;
  readonly socket: string;
};

export function* socketRows(text: string): Iterable<SocketRow> {
  for (const [, local = "", port = "", farPort = "", inode = ""] of text.matchAll(LINE)) {
    yield {
      address: addressOf(local),
      port: Number.parseInt(port, 16),
      farPort: Number.parseInt(farPort, 16),
      socket: `socket:[${inode}]`,
    };
  }
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

/** Empty where there is no such table (IPv6 turned off). */
async function tableText(path: string): Promise<string> {
  try {
    return await readFile(path, "latin1");
  } catch {
    return "";
  }
}
