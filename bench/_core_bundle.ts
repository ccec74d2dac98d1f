// What users of a bundler have of mod.ts: all its exports, or some of them, minified.

import { build, type Plugin } from "esbuild";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools/runtimes.ts";

/** One bundle. */
export interface CoreBundle {
  readonly code: string;
  /** The modules of the runtime that it imports. */
  readonly builtins: readonly string[];
  /** What each source contributes to it, in bytes. */
  readonly sources: ReadonlyMap<string, number>;
}

/** A program that has them loads them when it needs them. */
const { peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const peers = Object.keys(peerDependencies);

const lazyPartsStayOut: Plugin = {
  name: "lazy parts stay out",
  setup({ onResolve }) {
    onResolve({ filter: /\.ts$/ }, ({ kind, path }) => {
      return kind === "dynamic-import" ? { path, external: true } : undefined;
    });
  },
};

/** Bundles these exports of mod.ts, or all, without writing a file. What is loaded on demand stays out. */
export async function bundleCore(names: readonly string[] = []): Promise<CoreBundle> {
  const exported = names.length === 0 ? "*" : `{ ${names.join(", ")} }`;
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    stdin: { contents: `export ${exported} from "./mod.ts";`, resolveDir: root, loader: "ts" },
    plugins: [lazyPartsStayOut],
    outfile: "core.js",
    bundle: true,
    minify: true,
    format: "esm",
    platform: "neutral",
    target: ["es2022", "node20"],
    external: ["node:*", ...peers],
    metafile: true,
    write: false,
  });
  const { imports = [], inputs = {} } = Object.values(metafile.outputs)[0] ?? {};
  return {
    code: outputFiles[0]?.text ?? "",
    builtins: [...new Set(imports.map(({ path }) => path))].filter((it) => it.startsWith("node:")),
    sources: new Map(Object.entries(inputs).map(([path, it]) => [path, it.bytesInOutput])),
  };
}
