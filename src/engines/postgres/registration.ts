import { definedOptions, type EngineRegistration, LIMITS, limits } from "../_kit/registration.ts";
import { withoutParameters } from "../_kit/mailbox_url.ts";

const PARAMETERS = ["queue", "schema", ...LIMITS];

/** A table of a PostgreSQL database. Other parameters, such as `sslmode`, go to the client. */
export const postgres: EngineRegistration = {
  name: "PostgreSQL",
  schemes: ["postgres", "postgresql"],
  parameters: PARAMETERS,
  passesParameters: true,
  help: ["postgres://host:5432/shop?queue=orders&schema=lastcall&maxSize=100"],
  packages: ["postgres"],
  ownerDetection: () => "connections without a pooler in transaction mode",
  starter: {
    url: (queue) => `postgres://localhost:5432/postgres?queue=${queue}`,
    range: "^3.4.9",
  },
  async open(url, options) {
    const { PostgresMailbox } = await import("./mod.ts");
    return await PostgresMailbox.open(
      withoutParameters(url, PARAMETERS),
      definedOptions({
        ...options,
        name: url.params.get("queue"),
        schema: url.params.get("schema"),
        ...limits(url),
      }),
    );
  },
  async openExtender(options) {
    return await (await import("./postgres_mailbox.ts")).openExtender(options as never);
  },
};
