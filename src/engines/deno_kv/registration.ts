import { definedOptions, type EngineRegistration, LIMITS, limits } from "../_kit/registration.ts";
import { filePath } from "../_kit/mailbox_url.ts";

/** A Deno KV database; without a path, the default one of the program. */
export const denoKv: EngineRegistration = {
  name: "Deno KV",
  schemes: ["denokv"],
  parameters: ["queue", ...LIMITS],
  help: ["denokv:./jobs.kv?queue=orders&maxSize=100"],
  runtimes: ["deno"],
  file: (url) => url.path === "" ? undefined : filePath(url),
  starter: {
    url: (queue, folder) => `denokv:${folder}/${queue}.kv?queue=${queue}`,
    unstable: ["kv"],
  },
  async open(url, options) {
    const { DenoKvMailbox } = await import("./mod.ts");
    return await DenoKvMailbox.open(
      url.path === "" ? undefined : filePath(url),
      definedOptions({ ...options, name: url.params.get("queue"), ...limits(url) }),
    );
  },
};
