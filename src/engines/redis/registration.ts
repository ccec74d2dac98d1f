import { definedOptions, type EngineRegistration, LIMITS, limits } from "../_kit/registration.ts";
import { withoutParameters } from "../_kit/mailbox_url.ts";

/** A Redis server, or a cluster. */
export const redis: EngineRegistration = {
  name: "Redis",
  schemes: ["redis", "rediss", "redis+cluster", "rediss+cluster"],
  parameters: ["queue", ...LIMITS],
  help: [
    "redis://host:6379/0?queue=orders&maxSize=100",
    "redis+cluster://host:6379,other:6379?queue=orders&maxSize=100",
  ],
  packages: ["ioredis"],
  ownerDetection: ({ scheme }) =>
    scheme.endsWith("+cluster") ? undefined : "a user who may subscribe, and no cluster",
  starter: {
    url: (queue) => `redis://localhost:6379?queue=${queue}`,
    range: "^6.0.0",
    builtInto: ["bun"],
  },
  async open(url, options) {
    const { RedisMailbox } = await import("./mod.ts");
    return await RedisMailbox.open(
      withoutParameters(url),
      definedOptions({ ...options, name: url.params.get("queue"), ...limits(url) }),
    );
  },
  async openExtender(options) {
    return await (await import("./redis_mailbox.ts")).openExtender(options as never);
  },
};
