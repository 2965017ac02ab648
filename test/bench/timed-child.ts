/** A child that reads its task and ends; what it writes is the moment before it ends (`nowMs`). */

import { nowMs } from "./now.ts";

for await (const _chunk of process.stdin) continue;
process.stdout.write(`${nowMs()}\n`);
