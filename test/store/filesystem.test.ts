/**
 * Which mounts a database may live on.
 */

import { describe, expect, it } from "vitest";
import { mountOf, refusedMount } from "../../src/core/mount.ts";
import { nearestExisting } from "../../src/store/filesystem.ts";

const TABLE = [
  "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw",
  "23 22 0:21 / /proc rw,nosuid shared:12 - proc proc rw",
  "30 22 0:40 / /home rw,relatime shared:20 master:3 - btrfs /dev/vdb rw",
  "31 30 0:41 / /home/sam/remote rw,nosuid shared:21 - fuse.sshfs sam@host:/ rw,user_id=1000",
  "32 30 0:42 / /home/sam/remotely rw - tmpfs tmpfs rw",
  "33 22 0:43 / /mnt/share rw,relatime - nfs4 server:/export rw,vers=4.2",
  "34 22 0:44 / /mnt/my\\040disk rw,relatime - cifs //server/disk rw",
  "35 22 0:45 / /mnt/c rw,noatime - 9p C:\\134 rw",
  "36 22 0:46 / /mnt/vm rw - virtiofs host rw",
  "37 22 8:1 / /mnt/stick rw - fuseblk /dev/sdb1 rw",
  "38 22 0:47 / /mnt/over rw - nfs server:/old rw",
  "39 38 0:48 / /mnt/over rw - ext4 /dev/vdc rw",
  "40 22 0:49 / /mnt/odd rw - fuse odd rw",
  "",
].join("\n");

describe("a mount table", () => {
  it.each([
    ["/var/lib/data", "/", "ext4"],
    ["/home/sam", "/home", "btrfs"],
    ["/home/sam/remote", "/home/sam/remote", "fuse.sshfs"],
    ["/home/sam/remotely/data", "/home/sam/remotely", "tmpfs"],
    ["/home/sam/remotel", "/home", "btrfs"],
    ["/mnt/my disk/data", "/mnt/my disk", "cifs"],
    ["/mnt/over/data", "/mnt/over", "ext4"],
  ])("says where %s lies", (path, mountPoint, filesystem) => {
    expect(mountOf(path, TABLE)).toEqual({ mountPoint, filesystem });
  });

  it.each([
    "/home/sam/remote/data",
    "/mnt/share/data",
    "/mnt/my disk",
    "/mnt/c/Users/sam",
    "/mnt/vm/data",
    "/mnt/stick/data",
    "/mnt/odd",
  ])("refuses network and FUSE mounts: %s", (path) => {
    expect(refusedMount(path, TABLE)).not.toBeNull();
  });

  it.each(["/var/lib", "/home/sam/data", "/home/sam/remotely", "/mnt/over", "/mnt/shared"])("allows %s", (path) => {
    expect(refusedMount(path, TABLE)).toBeNull();
  });

  it("refuses nothing where the system has no such table", () => {
    expect(refusedMount("/anywhere", "")).toBeNull();
  });
});

describe("the nearest directory that exists", () => {
  it("is the path itself, or the first one above it", () => {
    expect(nearestExisting("/proc")).toBe("/proc");
    expect(nearestExisting("/no-such-directory/below/it")).toBe("/");
  });
});
