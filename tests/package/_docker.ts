// Builds and describes what a Dockerfile makes, in folders instead of an image. It knows the instructions that
// `lastcall init` writes, and refuses others.

import { existsSync, globSync, readFileSync } from "node:fs";
import { cp, mkdir } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { assert } from "@std/assert";
import { run } from "../../tools/process.ts";

/** The result of a build. */
export interface Image {
  /** The folder in which the command starts. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly port: number;
  readonly command: readonly string[];
  readonly healthCheck: readonly string[];
}

/** Options of {@linkcode build}. */
export interface BuildOptions {
  /** Where the stages are made. */
  readonly into: string;
  /** Called in the folder of a stage before each RUN. */
  readonly beforeRun: (folder: string) => Promise<void>;
  readonly env: Readonly<Record<string, string>>;
}

/** Executes the instructions of the Dockerfile of a folder. */
export async function build(context: string, options: BuildOptions): Promise<Image> {
  const ignored = readFileSync(join(context, ".dockerignore"), "utf8").split("\n").filter(Boolean);
  const stages = new Map<string, string>();
  let image: Image | undefined;
  const lines = readFileSync(join(context, "Dockerfile"), "utf8").split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  for (const line of lines) {
    const [, instruction = "", rest = ""] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    if (instruction === "FROM") {
      const [, , name = "last"] = rest.split(" ");
      const folder = join(options.into, name);
      stages.set(name, folder);
      image = { folder, env: {}, user: "root", port: 0, command: [], healthCheck: [] };
      continue;
    }
    assert(image, `${line} before FROM`);
    const root = [...stages.values()].at(-1)!;
    const set = (change: Partial<Image>) => image = { ...image!, ...change };
    switch (instruction) {
      case "WORKDIR":
        await mkdir(join(root, rest), { recursive: true });
        set({ folder: join(root, rest) });
        break;
      case "COPY":
        await copy(rest.split(" "), image.folder, context, stages, ignored);
        break;
      case "RUN": {
        await options.beforeRun(image.folder);
        // The users of the image do not exist here.
        const script = `set -e; chown() { :; }; ${rest}`;
        const { folder: cwd } = image;
        const { code, output } = await run("sh", ["-c", script], { cwd, env: options.env });
        assert(code === 0, `${line} ended with code ${code}:\n${output}`);
        break;
      }
      case "ENV": {
        const [key = "", value = ""] = rest.split(/=(.*)/s);
        set({ env: { ...image.env, [key]: value } });
        break;
      }
      case "USER":
        set({ user: rest });
        break;
      case "EXPOSE":
        set({ port: Number(rest) });
        break;
      case "CMD":
        set({ command: JSON.parse(rest) });
        break;
      case "HEALTHCHECK":
        set({ healthCheck: JSON.parse(rest.slice(rest.indexOf("["))) });
        break;
      default:
        assert(["VOLUME", "STOPSIGNAL"].includes(instruction), `unknown instruction: ${line}`);
    }
  }
  return image!;
}

async function copy(
  words: readonly string[],
  into: string,
  context: string,
  stages: ReadonlyMap<string, string>,
  ignored: readonly string[],
): Promise<void> {
  const [first = "", ...others] = words;
  const stage = /^--from=(.+)$/.exec(first)?.[1];
  const [sources, target = ""] = stage === undefined
    ? [words.slice(0, -1), words.at(-1)]
    : [others.slice(0, -1), others.at(-1)];
  if (stage !== undefined) {
    const from = join(stages.get(stage)!, sources[0]!);
    return await cp(from, resolve(into, target), { recursive: true, verbatimSymlinks: true });
  }
  const patterns = sources.map((it) => it === "." ? "{*,.*}" : it);
  const left = new Set(globSync([...ignored], { cwd: context }));
  for (const path of globSync(patterns, { cwd: context })) {
    if (left.has(path) || !existsSync(join(context, path))) continue;
    await cp(join(context, path), join(into, target, basename(path)), { recursive: true });
  }
}
