// The steps of `npm test`, in order.

import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root, runtimeBinary, type RuntimeName, tool } from "./runtimes.ts";

/** A command that must succeed. */
export interface Step {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly timeoutMs: number;
  /** The runner whose summary ends the output, if the step runs tests. */
  readonly runner?: RuntimeName;
  /** How many processes share the paths. @default {1} */
  readonly processes?: number;
  /** True if the step may run in parallel with the previous one. */
  readonly beside?: boolean;
  /** True if the step leaves the processor to the steps beside it. */
  readonly lowPriority?: boolean;
  /** Text that fails the step when its output contains it. */
  readonly forbidden?: string;
  /** Appended to the arguments. An empty list fails: the runner would search for tests. */
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
  "site",
  "model",
  "sim",
  "chaos",
  "doc",
];

/** The time limit of test steps. On a slow machine a step may take three times its usual time. */
const TEST_TIMEOUT_MS = 1_200_000;

/** The number of test files that a runtime runs in parallel. Most tests wait. Node and Bun run together. */
const JOBS = 2;
const DENO_JOBS = 3;

/** Folders of slow tests that start the runtimes themselves. Each is a step, on Node only. */
const HEAVY: readonly string[] = ["package", "page", "site", "docs", "chaos", "model", "sim"];

/**
 * Those that run in parallel with the step before them: `chaos` mostly waits. `package` and `docs` both build the
 * package.
 */
const BESIDE: readonly string[] = ["package", "page", "site", "chaos", "model", "sim"];

/** Those that only compute. The tests beside them measure time, and have the processor first. */
const LOW_PRIORITY: readonly string[] = ["model", "sim"];

/** Selects the steps by name. Filters keep only the test files whose paths contain one of them. */
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
    { name: "lint", beside: true, program: deno, args: ["lint"], timeoutMs: 60_000 },
    { name: "check", beside: true, program: deno, args: ["check"], timeoutMs: 180_000 },
    { name: "tsc", beside: true, program: tool("tsc"), args: [], timeoutMs: 180_000 },
    {
      name: "doclint",
      beside: true,
      program: deno,
      // the types of npm packages are not documented here
      args: ["doc", "--lint", "--no-npm", "--quiet"],
      paths: entries(),
      timeoutMs: 60_000,
    },
  ];
}

/** Returns the entry points of the package. */
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
      beside: true,
      program: runtimeBinary("bun"),
      // the default time limit of Bun is 5 s
      args: ["test", "--timeout", "60000", `--parallel=${JOBS}`],
      paths,
      timeoutMs: TEST_TIMEOUT_MS,
      runner: "bun",
    },
    {
      name: "deno",
      program: runtimeBinary("deno"),
      // the step `check` checks the types
      args: ["test", "--allow-all", "--no-check", "--unstable-kv"],
      // With `--parallel` the files would share one process, its working directory and environment.
      processes: DENO_JOBS,
      paths,
      timeoutMs: TEST_TIMEOUT_MS,
      runner: "deno",
    },
  ];
}

function heavyStep(name: string, files: readonly string[]): Step {
  const [beside, lowPriority] = [BESIDE.includes(name), LOW_PRIORITY.includes(name)];
  return { ...nodeStep(name, files.map((file) => `./${file}`), 1), beside, lowPriority };
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
    timeoutMs: TEST_TIMEOUT_MS,
    runner: "node",
  };
}

function jsrSteps(): readonly Step[] {
  const deno = runtimeBinary("deno");
  const guides = globSync(["docs/**/*.md", "examples/README.md"], { cwd: root }).sort();
  const documented = ["mod.ts", "src", "runtime_adapters", "README.md", "ARCHITECTURE.md"]
    .filter((path) => existsSync(join(root, path)))
    .concat(guides);
  return [
    {
      name: "doc",
      beside: true,
      program: deno,
      args: ["test", "--doc", "--allow-all"],
      paths: documented,
      timeoutMs: 300_000,
      runner: "deno",
      // console.assert prints this and does not fail the test
      forbidden: "Assertion failed",
    },
  ];
}
