// What `npm test` does, in order.

import { existsSync, globSync } from "node:fs";
import { join } from "node:path";
import { root, runtimeBinary, type RuntimeName, tool } from "./runtimes.ts";

/** One thing that must succeed. */
export interface Step {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly timeoutMs: number;
  /** Whose summary its output ends with, when it runs tests. */
  readonly runner?: RuntimeName;
  /** It may run beside the step before it. */
  readonly beside?: boolean;
  /** Added to the arguments; without any the runner would look for tests by itself. */
  readonly paths?: readonly string[];
}

/** The names that `--only` takes. */
export const stepNames: readonly string[] = [
  "fmt",
  "lint",
  "check",
  "tsc",
  "node",
  "bun",
  "deno",
  "package",
  "page",
  "chaos",
  "doc",
  "publish",
];

/** Folders of tests that are slow, and the same whoever starts them: each is a step, on Node alone. */
const HEAVY: readonly string[] = ["package", "page", "chaos"];

/** The steps to take; filters are parts of test files' paths and leave only steps with such files. */
export function selectSteps(only: readonly string[], filters: readonly string[]): readonly Step[] {
  const matching = (files: readonly string[]) =>
    files.filter((file) => filters.length === 0 || filters.some((part) => file.includes(part)));
  const all = globSync("tests/**/*_test.ts", { cwd: root }).map((file) =>
    file.replaceAll("\\", "/")
  );
  const isIn = (folder: string) => (file: string) => file.startsWith(`tests/${folder}/`);
  const light = matching(all.filter((file) => !HEAVY.some((it) => isIn(it)(file))).sort());
  const tests = [
    ...(light.length > 0 ? runtimeSteps(light) : []),
    ...HEAVY.map((folder) => heavyStep(folder, matching(all.filter(isIn(folder)).sort())))
      .filter(({ paths = [] }) => paths.length > 0),
  ];
  const steps = filters.length > 0 ? tests : [...staticSteps(), ...tests, ...jsrSteps()];
  return steps.filter(({ name }) => only.length === 0 || only.includes(name));
}

function staticSteps(): readonly Step[] {
  const deno = runtimeBinary("deno");
  return [
    { name: "fmt", program: deno, args: ["fmt", "--check"], timeoutMs: 60_000 },
    { name: "lint", program: deno, args: ["lint"], timeoutMs: 60_000 },
    { name: "check", program: deno, args: ["check"], timeoutMs: 180_000 },
    { name: "tsc", program: tool("tsc"), args: [], timeoutMs: 180_000 },
  ];
}

function runtimeSteps(files: readonly string[]): readonly Step[] {
  const paths = files.map((file) => `./${file}`);
  return [
    nodeStep("node", paths, 2),
    {
      name: "bun",
      program: runtimeBinary("bun"),
      // bun gives a test 5 s unless told, the others any time
      args: ["test", "--timeout", "60000"],
      paths,
      timeoutMs: 420_000,
      runner: "bun",
    },
    {
      name: "deno",
      program: runtimeBinary("deno"),
      // the types have been checked in a step of their own
      args: ["test", "--allow-all", "--no-check", "--unstable-kv"],
      paths,
      timeoutMs: 420_000,
      runner: "deno",
      // each runs one file after the other, and most tests wait
      beside: true,
    },
  ];
}

function heavyStep(name: string, files: readonly string[]): Step {
  return nodeStep(name, files.map((file) => `./${file}`), 1);
}

function nodeStep(name: string, paths: readonly string[], concurrency: number): Step {
  return {
    name,
    program: runtimeBinary("node"),
    args: [
      "--test",
      "--test-reporter=spec",
      "--test-timeout=240000",
      `--test-concurrency=${concurrency}`,
    ],
    paths,
    timeoutMs: 420_000,
    runner: "node",
  };
}

function jsrSteps(): readonly Step[] {
  const deno = runtimeBinary("deno");
  const documented = ["mod.ts", "src", "runtime_adapters", "README.md", "ARCHITECTURE.md", "docs"]
    .filter((path) => existsSync(join(root, path)));
  return [
    {
      name: "doc",
      // chaos, which comes before it, mostly waits
      beside: true,
      program: deno,
      args: ["test", "--doc", "--allow-all"],
      paths: documented,
      timeoutMs: 300_000,
      runner: "deno",
    },
    {
      name: "publish",
      program: deno,
      args: ["publish", "--dry-run", "--allow-dirty"],
      timeoutMs: 180_000,
    },
  ];
}
