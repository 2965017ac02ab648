/** Which child a connection comes from, with real processes that connect to a real server. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Mark } from "../../src/core/ids.ts";
import { probeChildGroups } from "../../src/guard/child-groups.ts";
import { createPeers, membersOf } from "../../src/guard/peer-process.ts";
import { parseStat } from "../../src/guard/linux-process-table.ts";
import { createBreather } from "../../src/guard/breather.ts";
import { plainAddress, tableOf } from "../../src/guard/socket-table.ts";
import type { PeerAddress } from "../../src/ports/peers.ts";
import { eventually, freshMark } from "../support/processes.ts";

const DAEMON = "here.1";
const linux = process.platform === "linux";
const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === "::1"),
);
const CLIENT = `require("node:net").connect(Number(process.argv[2]), process.argv[1]).on("error", () => process.exit(1)).resume()`;

/** Below what a listening socket holds that nobody has taken yet. */
const CROWD = 400;

const peers = createPeers({ platform: "linux", daemonId: DAEMON });
const started: ChildProcess[] = [];
let server: Server;
let port = 0;

beforeAll(async () => {
  server = createServer().listen(0, hasIpv6 ? "::" : "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  port = typeof address === "object" && address !== null ? address.port : expect.fail("no port");
});
afterEach(() => {
  for (const child of started.splice(0)) {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
});
afterAll(() => server.close());

/** Starts a program in a group of its own. */
function start(command: readonly [string, ...string[]], env: Record<string, string>): ChildProcess {
  const child = spawn(command[0], command.slice(1), { env, stdio: "ignore", detached: true });
  started.push(child);
  return child;
}

/** Starts a program that connects to us, and waits for the connection. */
async function connectionOf(command: readonly [string, ...string[]], env: Record<string, string>): Promise<Socket> {
  const accepted = once(server, "connection");
  start(command, env);
  const [socket]: Socket[] = await accepted;
  return (socket ?? expect.fail("no socket")).on("error", () => {});
}

const client = (host: string): readonly [string, ...string[]] => [process.execPath, "-e", CLIENT, host, String(port)];
const marked = (mark: string): Record<string, string> => ({ DELEGATE_CHILD_MARK: mark });

function addressOf({ remoteAddress, remotePort, localPort }: Socket): PeerAddress {
  return { remoteAddress, remotePort, localPort };
}

describe.runIf(linux)("the peer of a connection", () => {
  it.each(hasIpv6 ? ["127.0.0.1", "::1", "::ffff:127.0.0.1"] : ["127.0.0.1"])(
    "is the child whose process connected to %s, whatever token it sends (P18, X2)",
    async (host) => {
      const mark = freshMark(DAEMON);
      const socket = await connectionOf(client(host), marked(mark));
      expect(await peers.markOf(addressOf(socket))).toBe(mark);
    },
  );

  it("is the child also where a helper with a cleaned environment connects (P18, X2)", async () => {
    const mark = freshMark(DAEMON);
    const line = 'env -i "$@"; true';
    const socket = await connectionOf(["/bin/sh", "-c", line, "sh", ...client("127.0.0.1")], marked(mark));
    expect(await peers.markOf(addressOf(socket))).toBe(mark);
  });

  it("is the child also where such a helper has lost its parent and not its session (P18)", async () => {
    const mark = freshMark(DAEMON);
    const line = '( env -i "$@" & ); sleep 600';
    const socket = await connectionOf(["/bin/sh", "-c", line, "sh", ...client("127.0.0.1")], marked(mark));
    expect(await peers.markOf(addressOf(socket))).toBe(mark);
  });

  it("is the child that really connects, not the sibling whose mark it writes over its own (P18)", async () => {
    const [mark, sibling] = [freshMark(DAEMON), freshMark(DAEMON)];
    const line = `DELEGATE_CHILD_MARK=${sibling} "$@"; true`;
    const socket = await connectionOf(["/bin/sh", "-c", line, "sh", ...client("127.0.0.1")], marked(mark));
    expect(await peers.markOf(addressOf(socket))).toBe(mark);
  });

  it("is the child whose control group it is in, whatever else it has thrown off (P18)", async (context) => {
    const groups = probeChildGroups();
    if (groups === null) return context.skip();
    const mark = freshMark(DAEMON);
    const accepted = once(server, "connection");
    // A session of its own, no environment, no parent that is left; and a child that wears a sibling's mark.
    const script = `setsid env -i "$0" -e "$1" 127.0.0.1 ${port} </dev/null >/dev/null 2>&1 & exit 0`;
    groups.within(mark, () =>
      start(["sh", "-c", script, process.execPath, CLIENT], { PATH: process.env["PATH"] ?? "" }),
    );
    const [socket]: Socket[] = await accepted;
    await eventually("the helper has lost its parent", () => started.every(({ exitCode }) => exitCode !== null));
    expect(await peers.markOf(addressOf(socket ?? expect.fail("no socket")))).toBe(mark);
    const group = groups.of(mark);
    group?.kill();
    await eventually("the group is empty", () => group?.populated() === false);
    group?.remove();
  });

  it("is found for each of a crowd of connections that come at once (P15, P18)", async () => {
    const mark = freshMark(DAEMON);
    const found: Promise<Mark | null>[] = [];
    const all = Promise.withResolvers<void>();
    const take = (socket: Socket): void => {
      found.push(peers.markOf(addressOf(socket.on("error", () => {}))));
      if (found.length === CROWD) all.resolve();
    };
    server.on("connection", take);
    const crowd = `for (let n = 0; n < ${CROWD}; n++) require("node:net").connect(${port}, "127.0.0.1").resume()`;
    start([process.execPath, "-e", crowd], marked(mark));
    await all.promise;
    server.off("connection", take);
    expect(new Set(await Promise.all(found))).toEqual(new Set([mark]));
  });

  it("is another daemon's child where it is one, so that nobody takes it for a person (P18)", async () => {
    const mark = freshMark("other.2");
    const socket = await connectionOf(client("127.0.0.1"), marked(mark));
    expect(await peers.markOf(addressOf(socket))).toBe(mark);
  });

  it("is nobody's child where no mark is, or what is no mark", async () => {
    for (const env of [{}, marked("nonsense")]) {
      expect(await peers.markOf(addressOf(await connectionOf(client("127.0.0.1"), env)))).toBeNull();
    }
  });

  it("is nobody once the connection was closed, or where there never was one", async () => {
    const socket = await connectionOf(client("127.0.0.1"), marked(freshMark(DAEMON)));
    const address = addressOf(socket);
    const closed = once(socket.resume(), "close");
    started[0]?.kill("SIGKILL");
    await closed;
    await eventually("the peer has let go", async () => (await peers.markOf(address)) === null);
    expect(await peers.markOf({ ...address, remoteAddress: "192.0.2.7" })).toBeNull();
    expect(await peers.markOf({ ...address, remoteAddress: undefined })).toBeNull();
  });

  it("is told apart from the peers of other connections, asked about at once (P18)", async () => {
    const marks: readonly Mark[] = [freshMark(DAEMON), freshMark(DAEMON)];
    const sockets: Socket[] = [];
    for (const mark of marks) sockets.push(await connectionOf(client("127.0.0.1"), marked(mark)));
    sockets.push(await connectionOf(client("127.0.0.1"), {}));
    expect(await Promise.all(sockets.map((socket) => peers.markOf(addressOf(socket))))).toEqual([...marks, null]);
  });

  it("is found within its time among two hundred further processes (P15)", async () => {
    const crowd = "for i in $(seq 100); do sleep 600 & done; wait";
    start(["/bin/sh", "-c", crowd], { PATH: process.env["PATH"] ?? "" });
    start(["/bin/sh", "-c", crowd], { PATH: process.env["PATH"] ?? "", ...marked(freshMark(DAEMON)) });
    const mark = freshMark(DAEMON);
    const address = addressOf(await connectionOf(client("127.0.0.1"), marked(mark)));
    const times: number[] = [];
    for (let look = 0; look < 10; look += 1) {
      const beganMs = performance.now();
      expect(await peers.markOf(address)).toBe(mark);
      times.push(performance.now() - beganMs);
    }
    times.sort((one, other) => one - other);
    console.log(`peer look-up: median ${times[5]?.toFixed(1)} ms, slowest ${times[9]?.toFixed(1)} ms`);
    expect(times[9]).toBeLessThan(250);
  });
});

it("the peer of a connection is not looked for on other systems", async () => {
  const elsewhere = createPeers({ platform: "darwin", daemonId: DAEMON });
  expect(await elsewhere.markOf({ remoteAddress: "127.0.0.1", remotePort: 1, localPort: 2 })).toBeNull();
});

describe("the processes of children", () => {
  const row = (pid: number, ppid: number, mark: string | null = null, sid = pid) => {
    const stat = parseStat(`${pid} (x) S ${ppid} ${pid} ${sid} ${"0 ".repeat(13)}1 0 7 0 0 0`);
    return [pid, { ...(stat ?? expect.fail("no row")), mark }] as const;
  };
  const marksIn = (...rows: ReturnType<typeof row>[]) =>
    Object.fromEntries(membersOf(new Map(rows), { daemonId: DAEMON, pid: 50 }).map(({ pid, mark }) => [pid, mark]));

  it("do not take after somebody's child that started this daemon (P18)", () => {
    const [above, below] = [freshMark(DAEMON), freshMark("inner")];
    expect(marksIn(row(40, 1, above), row(50, 40), row(60, 50, below), row(61, 60), row(70, 50))).toEqual({
      40: above,
      60: below,
      61: below,
    });
  });

  it("end where the line above them is longer than any real one, or goes in a circle (P15)", () => {
    const mark = freshMark(DAEMON);
    const line = Array.from({ length: 40 }, (_, at) => row(100 + at, 99 + at, at === 0 ? mark : null));
    expect(Object.keys(marksIn(...line))).toHaveLength(33);
    expect(marksIn(row(7, 8), row(8, 7))).toEqual({});
  });
});

describe("the kernel's table of connections", () => {
  const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
  const entry = (at: number, local: string, remote: string, inode: number) =>
    `   ${at}: ${local} ${remote} 01 00000000:00000000 00:00000000 00000000     0        0 ${inode} 1 0000 20 4 30 10 -1\n`;

  it("names the socket by both ends, also where two clients share a port number", async () => {
    const text =
      head +
      entry(0, "0100007F:1F90", "0100007F:A2C4", 11) +
      entry(1, "0100007F:A2C4", "0100007F:1F90", 12) +
      entry(2, "0200007F:A2C4", "0100007F:1F90", 13) +
      entry(3, "0100007F:A2C4", "0100007F:1F91", 14) +
      entry(4, "0100007F:A2C5", "0100007F:1F90", 0);
    const table = await tableOf(text, createBreather());
    const socketOf = (address: string, port: number) => table.socketsOf({ address, port, localPort: 0x1f90 });
    expect(socketOf("127.0.0.1", 0xa2c4)).toEqual(["socket:[12]"]);
    expect(socketOf("::ffff:127.0.0.2", 0xa2c4)).toEqual(["socket:[13]"]);
    expect(socketOf("::1", 0xa2c4)).toEqual([]);
    expect(socketOf("127.0.0.1", 0xa2c5)).toEqual([]);
  });

  it("is read with IPv6 addresses, and IPv4 addresses in their clothes", async () => {
    const text =
      head +
      entry(0, "00000000000000000000000001000000:A2C4", "00000000000000000000000001000000:1F90", 21) +
      entry(1, "0000000000000000FFFF00000100007F:A2C4", "0000000000000000FFFF00000100007F:1F90", 22) +
      entry(2, "000080FE000000000000000001000000:A2C4", "000080FE000000000000000002000000:1F90", 23);
    const table = await tableOf(text, createBreather());
    const socketOf = (address: string) => table.socketsOf({ address, port: 0xa2c4, localPort: 0x1f90 });
    expect(socketOf("::1")).toEqual(["socket:[21]"]);
    expect(socketOf("127.0.0.1")).toEqual(["socket:[22]"]);
    expect(socketOf("fe80::1%eth0")).toEqual(["socket:[23]"]);
    expect(plainAddress("::ffff:10.0.0.1")).toBe("10.0.0.1");
  });
});
