import type { HttpServer, Runtime } from "../runtime.ts";
import type { Support } from "../lifecycle/support.ts";
import { healthApp } from "./health_app.ts";
import type { HealthOptions, Inspectable } from "./health_options.ts";

/** Serves the health of a group, from before its loops start until after they have stopped. */
export class HealthServer implements Support {
  readonly name = "health";
  readonly #runtime: Runtime;
  readonly #fetch: (request: Request) => Response | Promise<Response>;
  readonly #place: { readonly port: number; readonly hostname: string };
  #server: HttpServer | undefined;

  constructor(
    group: Inspectable,
    runtime: Runtime,
    place: { readonly port: number; readonly hostname: string },
    options: HealthOptions,
  ) {
    const app = healthApp(group, options);
    this.#fetch = (request) => app.fetch(request);
    this.#runtime = runtime;
    this.#place = place;
  }

  async start(): Promise<void> {
    const { serve, name } = this.#runtime;
    if (serve === undefined) throw new Error(`The runtime "${name}" cannot serve HTTP`);
    const { port, hostname } = this.#place;
    try {
      this.#server = await serve(this.#fetch, this.#place);
    } catch (error) {
      throw new Error(`Nothing can listen at ${hostname}:${port}: ${error}`, { cause: error });
    }
  }

  async stop(context: { readonly signal: AbortSignal }): Promise<void> {
    await this.#server?.close(context);
    this.#server = undefined;
  }
}
