/**
 * Whether a file system keeps a database whole, by the system's table of mounts.
 *
 * Invariant: network and FUSE mounts are refused: their locks and syncs are promises of somebody else, and two machines
 * could open one database.
 * Absent on purpose: systems without a mount table of this form (macOS, Windows); there nothing is refused here.
 */

export type Mount = { readonly mountPoint: string; readonly filesystem: string };

/** Kernel names of file systems that live on another machine or in another process. */
const REFUSED = new Set([
  "9p",
  "afs",
  "beegfs",
  "ceph",
  "cifs",
  "coda",
  "davfs",
  "fakeowner",
  "gfs2",
  "glusterfs",
  "lustre",
  "ncpfs",
  "nfs",
  "nfs4",
  "ocfs2",
  "orangefs",
  "prl_fs",
  "smb3",
  "smbfs",
  "vboxsf",
  "virtiofs",
  "vmhgfs",
]);

/** The mount that holds `path` if it is of a kind that is refused, else null. `table` is /proc/self/mountinfo. */
export function refusedMount(path: string, table: string): Mount | null {
  const mount = mountOf(path, table);
  if (mount === null) return null;
  const isFuse = mount.filesystem === "fuse" || mount.filesystem === "fuseblk" || mount.filesystem.startsWith("fuse.");
  return isFuse || REFUSED.has(mount.filesystem) ? mount : null;
}

/** The mount that a path lies on: the longest mount point above it, of equal ones the last, which covers the others. */
export function mountOf(path: string, table: string): Mount | null {
  let best: Mount | null = null;
  for (const line of table.split("\n")) {
    const mount = parseLine(line);
    if (mount === null || !isAbove(mount.mountPoint, path)) continue;
    if (best === null || mount.mountPoint.length >= best.mountPoint.length) best = mount;
  }
  return best;
}

/** Fields: id, parent, device, root, mount point, options, optional fields …, "-", file system, source, options. */
function parseLine(line: string): Mount | null {
  const fields = line.split(" ");
  const mountPoint = fields[4];
  const filesystem = fields[fields.indexOf("-", 6) + 1];
  if (mountPoint === undefined || filesystem === undefined || !fields.includes("-", 6)) return null;
  return { mountPoint: unescaped(mountPoint), filesystem };
}

/** Blanks and backslashes are written as octal numbers. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

function isAbove(mountPoint: string, path: string): boolean {
  return mountPoint === "/" || path === mountPoint || path.startsWith(`${mountPoint}/`);
}
