import { definedOptions, type EngineRegistration } from "./_kit/registration.ts";
import { countParam } from "./_kit/mailbox_url.ts";

/** Messages in the memory of the process, for tests and for work that may be lost with the process. */
export const memory: EngineRegistration = {
  name: "memory",
  schemes: ["memory"],
  parameters: ["maxSize"],
  help: ["memory:orders?maxSize=100"],
  inProcess: true,
  async open(url, options) {
    const { InMemoryMailbox } = await import("../mailbox/in_memory_mailbox.ts");
    const all = definedOptions({ ...options, maxSize: countParam(url, "maxSize") });
    return new InMemoryMailbox(url.path || undefined, all);
  },
};
