#!/usr/bin/env node
/**
 * The way in. Tells a Node that is too old so in one line (exit status 2) before anything modern is loaded.
 *
 * Absent on purpose: static imports and new syntax. They are read before the first line runs, so an old Node would
 * answer with a stack trace instead.
 */

var version = process.versions.node.split(".").map(Number);

if (version[0] < 22 || (version[0] === 22 && version[1] < 19)) {
  process.stderr.write(
    "delegate-mcp needs Node 22.19 or newer; this is " + process.version + " at " + process.execPath + "\n",
  );
  process.exitCode = 2;
} else {
  void import("../dist/cli/run.js");
}
