// Keeps out of the browser what only a process can use. The playground imports the sources of the package.

/** The part of a Vite plugin that is used here. */
interface ModulePlugin {
  readonly name: string;
  readonly enforce: "pre";
  readonly config: () => { readonly build: { readonly target: string } };
  readonly resolveId: (source: string) => string | undefined;
  readonly load: (id: string) => string | undefined;
}

/** The list of engines, the health server, the thread for leases and the optional packages. */
const ABSENT = /\/(?:registry|health_server|_lease_thread_main)\.ts$|^@(?:logtape|opentelemetry)\//;

const EMPTY = "\0lastcall:absent";

/** Replaces modules that loops import for URLs, health, threads and telemetry. The playground has none. */
export const browserModules: ModulePlugin = {
  name: "lastcall:browser-modules",
  enforce: "pre",
  // Private fields stay private fields: what replaces them in older browsers is larger and slower.
  config: () => ({ build: { target: "es2022" } }),
  resolveId: (source) => ABSENT.test(source) ? EMPTY : undefined,
  load: (id) => id === EMPTY ? "export const ENGINES = [];" : undefined,
};
