/** A path of a worker's service. */
export function workerUrl(root: string, path: string): string {
  return root.replace(/\/$/, "") + path;
}
