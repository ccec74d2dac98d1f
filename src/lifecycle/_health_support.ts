import type { Inspectable } from "../health/health_options.ts";
import type { GroupConfig } from "./group_options.ts";
import type { Support } from "./support.ts";

/** Serves the health of a group, where it has a port for that. What it needs is loaded only then. */
export function healthSupport(group: Inspectable, config: GroupConfig): readonly Support[] {
  const { healthPort: port, healthHost: hostname, health, runtime, clock, log } = config;
  if (port === undefined) return [];
  let server: Support | undefined;
  return [{
    name: "health",
    async start(context) {
      const { HealthServer, loadHono } = await import("../health/health_server.ts");
      const hono = await loadHono("healthPort", runtime());
      const options = { clock, log, ...health };
      server = new HealthServer(hono, group, runtime(), { port, hostname }, options);
      await server.start?.(context);
    },
    async stop(context) {
      await server?.stop(context);
    },
  }];
}
