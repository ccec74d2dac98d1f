import manifest from "../deno.json" with { type: "json" };

/** The version of the package, from the one place that has it. */
export const VERSION: string = manifest.version;
