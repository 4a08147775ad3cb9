/** Returns the path of the parent of a znode. */
export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}
