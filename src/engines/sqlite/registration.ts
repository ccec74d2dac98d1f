import { definedOptions, type EngineRegistration, LIMITS, limits } from "../_kit/registration.ts";
import { filePath, flagParam, oneOfParam } from "../_kit/mailbox_url.ts";

/** A file that the processes of one machine share. */
export const sqlite: EngineRegistration = {
  name: "SQLite",
  schemes: ["sqlite"],
  parameters: ["queue", "durability", "sharedFile", ...LIMITS],
  help: [
    "sqlite:./jobs.db?queue=orders&durability=full&maxSize=100",
    "sqlite:./app.db?queue=orders&sharedFile=true",
  ],
  packages: ["better-sqlite3"],
  ownerDetection: () => "a file system that locks files",
  file: (url) => filePath(url) || undefined,
  starter: {
    url: (queue, folder) => `sqlite:${folder}/${queue}.db?queue=${queue}`,
    builtInto: ["node", "bun", "deno"],
  },
  async open(url, options) {
    const { SqliteMailbox } = await import("./mod.ts");
    return await SqliteMailbox.open(
      filePath(url),
      definedOptions({
        ...options,
        name: url.params.get("queue"),
        durability: oneOfParam(url, "durability", ["normal", "full"] as const),
        sharedFile: flagParam(url, "sharedFile"),
        ...limits(url),
      }),
    );
  },
  async openExtender(options) {
    return await (await import("./sqlite_mailbox.ts")).openExtender(options as never);
  },
};
