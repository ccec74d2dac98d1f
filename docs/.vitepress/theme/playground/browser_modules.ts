// Keeps out of the browser what only a process can use. The playground imports the sources of the package.

/** The part of a Vite plugin that is used here. */
interface VitePlugin {
  readonly name: string;
  readonly enforce: "pre";
  config(): { readonly build: { readonly target: string } };
  resolveId(source: string): string | undefined;
  load(id: string): string | undefined;
}

/** The list of engines, the health server, the thread for leases and the optional packages. */
const ABSENT = /\/(?:registry|health_server|_lease_thread_main)\.ts$|^@(?:logtape|opentelemetry)\//;

const EMPTY = "\0lastcall:absent";

/**
 * Replaces modules that a loop imports for URLs, health servers and threads. A mailbox in memory needs
 * none of them.
 */
export function browserModules(): VitePlugin {
  return {
    name: "lastcall:browser-modules",
    enforce: "pre",
    // Private fields stay private fields: what replaces them in older browsers is larger and slower.
    config: () => ({ build: { target: "es2022" } }),
    resolveId: (source) => ABSENT.test(source) ? EMPTY : undefined,
    load: (id) => id === EMPTY ? "export const ENGINES = [];" : undefined,
  };
}
