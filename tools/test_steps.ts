// What `npm test` does, in order.

import { existsSync, globSync, readFileSync } from "node:fs";
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
  /** Added to the environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** It may run beside the step before it. */
  readonly beside?: boolean;
  /** What its output must not have, although it exits with 0. */
  readonly forbidden?: string;
  /** Added to the arguments; without any the runner would look for tests by itself. */
  readonly paths?: readonly string[];
}

/** The names that `--only` takes. */
export const stepNames: readonly string[] = [
  "fmt",
  "lint",
  "check",
  "tsc",
  "doclint",
  "node",
  "bun",
  "deno",
  "package",
  "docs",
  "page",
  "chaos",
  "doc",
];

/** A step of tests that takes longer hangs; on a busy machine each may take twice its usual time. */
const HUNG_MS = 600_000;

/** Files that a runtime tests at a time. Most tests wait: two on two cores halve the time. */
const JOBS = 2;

/** Folders of tests that are slow, and the same whoever starts them: each is a step, on Node alone. */
const HEAVY: readonly string[] = ["package", "docs", "page", "chaos"];

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
    {
      name: "doclint",
      program: deno,
      // what npm packages bring is documented by them: their types are not ours to export
      args: ["doc", "--lint", "--no-npm", "--quiet"],
      paths: entries(),
      timeoutMs: 60_000,
    },
  ];
}

/** The modules that users import, each for the comments of all that it exports. */
function entries(): readonly string[] {
  const { exports } = JSON.parse(readFileSync(join(root, "deno.json"), "utf8"));
  return Object.values<string>(exports);
}

function runtimeSteps(files: readonly string[]): readonly Step[] {
  const paths = files.map((file) => `./${file}`);
  return [
    nodeStep("node", paths, JOBS),
    {
      name: "bun",
      program: runtimeBinary("bun"),
      // bun gives a test 5 s unless told, the others any time
      args: ["test", "--timeout", "60000", `--parallel=${JOBS}`],
      paths,
      timeoutMs: HUNG_MS,
      runner: "bun",
    },
    {
      name: "deno",
      program: runtimeBinary("deno"),
      // the types have been checked in a step of their own
      args: ["test", "--allow-all", "--no-check", "--unstable-kv", "--parallel"],
      env: { DENO_JOBS: `${JOBS}` },
      paths,
      timeoutMs: HUNG_MS,
      runner: "deno",
    },
  ];
}

function heavyStep(name: string, files: readonly string[]): Step {
  // Deno's tests wait most of the time. `docs` may not join them: it builds the package too.
  const beside = name === "package";
  return { ...nodeStep(name, files.map((file) => `./${file}`), 1), beside };
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
    timeoutMs: HUNG_MS,
    runner: "node",
  };
}

function jsrSteps(): readonly Step[] {
  const deno = runtimeBinary("deno");
  const guides = globSync(["docs/*.md", "examples/README.md"], { cwd: root }).sort();
  const documented = ["mod.ts", "src", "runtime_adapters", "README.md", "ARCHITECTURE.md"]
    .filter((path) => existsSync(join(root, path)))
    .concat(guides);
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
      // console.assert in an example says so, and fails nothing
      forbidden: "Assertion failed",
    },
  ];
}
