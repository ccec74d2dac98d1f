import { definedOptions, type EngineRegistration, LIMITS, limits } from "../_kit/registration.ts";
import { withoutParameters } from "../_kit/mailbox_url.ts";

/** A stream of a NATS server. `tls:` is the scheme of servers with TLS. */
export const nats: EngineRegistration = {
  name: "NATS",
  schemes: ["nats", "tls"],
  parameters: ["queue", ...LIMITS],
  help: ["nats://host:4222?queue=orders&maxSize=100"],
  packages: ["@nats-io/transport-node"],
  alwaysCreates: "the streams of a mailbox on NATS",
  starter: {
    url: (queue) => `nats://localhost:4222?queue=${queue}`,
    range: "^3.4.0",
  },
  async open(url, options) {
    const { NatsMailbox } = await import("./mod.ts");
    return await NatsMailbox.open(
      withoutParameters(url),
      definedOptions({ ...options, name: url.params.get("queue"), ...limits(url) }),
    );
  },
};
