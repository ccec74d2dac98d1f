// The core as users of a bundler have it: mod.ts with all its exports, minified.

import { build } from "esbuild";
import { root } from "../tools/runtimes.ts";

/** One bundle. */
export interface CoreBundle {
  readonly code: string;
  /** The modules of the runtime that it imports. */
  readonly builtins: readonly string[];
  /** What each source contributes to it, in bytes. */
  readonly sources: ReadonlyMap<string, number>;
}

/** Bundles without writing a file. */
export async function bundleCore(): Promise<CoreBundle> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["mod.ts"],
    outfile: "core.js",
    bundle: true,
    minify: true,
    format: "esm",
    platform: "neutral",
    target: ["es2022", "node20"],
    external: ["node:*"],
    metafile: true,
    write: false,
  });
  const { imports = [], inputs = {} } = Object.values(metafile.outputs)[0] ?? {};
  return {
    code: outputFiles[0]?.text ?? "",
    builtins: [...new Set(imports.map(({ path }) => path))],
    sources: new Map(Object.entries(inputs).map(([path, it]) => [path, it.bytesInOutput])),
  };
}
