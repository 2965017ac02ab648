/** Texts that parsers of ids, marks, cursors and headers have to bear, by what they are meant for. Every find is added. */

const TASK = "dt_01M8RDENWBWY0DFWYS2QHAG06Y";

export const IDS: readonly string[] = [
  TASK,
  "th_01M8RDENWBWY0DFWYS2QHAG06Y",
  `node:delegated-task:${TASK}`,
  `node:delegated-task:node:delegated-task:${TASK}`,
  `${TASK}.a1`,
  `${TASK}.a999999999`,
  `${TASK}.a0`,
  `${TASK}.a1e3`,
  `${TASK}.r1`,
  `d1.${TASK}.a1`,
  `.dt_.dt_.${TASK}.a1`,
  `${TASK}\n`,
  "dt_01m8rdenwbwy0dfwys2qhag06y",
  "dt_ILOU0000000000000000000000",
  "q_1",
  "",
];

export const AFTERS: readonly string[] = [
  "k3x9q:",
  "k3x9q:2QHAG06Y.3.12",
  "k3x9q:2QHAG06Y.3.12_2QHAG06Z.0.0",
  "k3x9q:2QHAG06Y.3.12_",
  "k3x9q:2QHAG06Y.999999999.999999999",
  "k3x9q:2QHAG06Y.3",
  "k3x9q:__proto__.1.1",
  ":",
];

export const CURSORS: readonly string[] = [
  "m0.0.0",
  "e12.7.4000",
  "m999999999999.999999999999.999999999999",
  "r0",
  "c999999999999",
  "0.0.0",
  "12.7.4000",
  "999999999999.999999999999.999999999999",
  "1.2",
  "-1.0.0",
  "1e3.0.0",
];

export const HEADERS: readonly string[] = [
  "Bearer token-of-alice",
  "bearer   token-of-alice  ",
  "Bearer",
  "Bearer ",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what clients send
  "Bearer ${TOKEN}",
  "Basic YTpi",
  "127.0.0.1:4517",
  "[::1]:4517",
  "localhost",
  "localhost.evil.test",
  "127.0.0.1@evil.test",
  "http://localhost:3000",
  "http://localhost:3000/",
  "http://127.0.0.1.evil.test",
  "null",
  "2025-06-18",
  "2026-07-28",
  "1000",
  "-1",
  "1e9",
  "99999999999",
  "/shop/\u00e9",
  "text/event-stream",
];

export const SOCKET_TABLES: readonly string[] = [
  "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:A2C4 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 123 1 0 20 4 30 10 -1\n",
  "   0: 00000000000000000000000001000000:A2C4 00000000000000000000000001000000:1F90 01 00000000:00000000 00:00000000 00000000     0        0 124 1 0\n",
  "   0: 0000000000000000FFFF00000100007F:A2C4 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 125 1 0\n",
  // A line that was cut or garbled: an address of no known length.
  "   0: 01007F:A2C4 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 126 1 0\n",
  "   0: 0100007:A2C4 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 127 1 0\n",
  "   0: 0000000000000000FFFF0000:A2C4 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 128 1 0\n",
];

/** Short texts that are repeated to great length, to find whatever takes more than linear time. */
export const BAITS: readonly string[] = [
  "a",
  "0",
  " ",
  ".",
  "_",
  "-",
  "dt_",
  ".dt_",
  `${TASK}.a1`,
  "node:delegated-task:",
  "2QHAG06Y.3.12_",
  "1.",
  "Bearer ",
  "Bearer a ",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is what clients send
  "${a}",
  "<",
  "{{",
  "?token",
  "&a=",
  "[:",
  "127.0.0.1",
  "\u001b[",
  "\u001b]",
  "\u001b[0;",
  "\u001bP",
  "\u009b ",
  "- ",
  "-- end\n",
  "\n ",
  "> ",
  "   0: 0100007F:A2C4 0100007F:1F90 01 ",
];
