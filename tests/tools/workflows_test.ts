import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary } from "../../tools/runtimes.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";

interface Step {
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly uses?: string;
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps?: readonly Step[];
  readonly "timeout-minutes"?: number;
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, string>>;
  readonly concurrency: unknown;
  readonly jobs: Readonly<Record<string, Job>>;
}

/** Parses YAML with Bun, which has a parser. */
async function parse(name: string): Promise<Workflow> {
  const path = JSON.stringify(join(root, ".github", "workflows", name));
  const program = `console.log(JSON.stringify(Bun.YAML.parse(await Bun.file(${path}).text())))`;
  const { code, output } = await run(runtimeBinary("bun"), ["-e", program]);
  assertEquals(code, 0, output);
  return JSON.parse(output);
}

const ci = await parse("ci.yml");
const release = await parse("release.yml");
const docs = await parse("docs.yml");
const npm = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const jobs = [ci, release, docs].flatMap((workflow) => Object.entries(workflow.jobs));
const steps = jobs.flatMap(([, job]) => job.steps ?? []);
const scripts = steps.flatMap((step) => step.run === undefined ? [] : [step.run]);

/** Runs a step of a job with stubs of `npm` and `gh` that record their arguments. */
async function play(job: string, step: RegExp, tag: string, known: boolean): Promise<string> {
  using folder = new TempFolder();
  const answer = known ? "echo 1.0.0" : "exit 1";
  const stub = `#!/bin/sh\necho "$(basename "$0") $*" >>"$PLAYED"\n` +
    `case "$2" in view) ${answer} ;; esac\ncase "$1" in view) ${answer} ;; esac\n`;
  for (const program of ["npm", "gh"]) {
    writeFileSync(folder.file(program), stub);
    chmodSync(folder.file(program), 0o755);
  }
  const script = release.jobs[job]?.steps?.find(({ name = "" }) => step.test(name))?.run;
  assert(script, `no step of "${job}" matches ${step}`);
  const { code, output } = await run("bash", ["-e", "-o", "pipefail", "-c", script], {
    env: {
      PATH: [folder.path, join(root, "node_modules", ".bin"), process.env["PATH"]].join(delimiter),
      GITHUB_REF_NAME: tag,
      RUNNER_TEMP: folder.path,
      PLAYED: folder.file("played"),
    },
  });
  assertEquals(code, 0, output);
  return readFileSync(folder.file("played"), "utf8").replaceAll(folder.path, "");
}

describe("the workflows", () => {
  it("the workflows have read permission only, except to publish and to announce", () => {
    for (const { permissions } of [ci, release, docs]) {
      assertEquals(permissions, { contents: "read" });
    }
    const more = jobs.filter(([, job]) => job.permissions !== undefined);
    assertEquals(Object.fromEntries(more.map(([name, job]) => [name, job.permissions])), {
      npm: { contents: "read", "id-token": "write" },
      jsr: { contents: "read", "id-token": "write" },
      announce: { contents: "write" },
      docs: { contents: "write" },
    });
    assert(!/\bsecrets\b/.test(JSON.stringify([ci, release, docs])), "a secret can get lost");
  });

  it("the workflows have a time limit, a concurrency group, and actions with a version", () => {
    assert(ci.concurrency && release.concurrency && docs.concurrency);
    for (const [name, job] of jobs) {
      assert(job.uses !== undefined || job["timeout-minutes"]! <= 60, `${name} has no limit`);
    }
    for (const { uses } of steps) if (uses !== undefined) assertMatch(uses, /^[\w-]+\/[\w-]+@v\d+/);
  });

  it("the workflows use existing scripts and files, and valid shell syntax", async () => {
    for (const script of scripts) {
      for (const [, name = ""] of script.matchAll(/\bnpm run ([\w-]+)/g)) assert(npm.scripts[name]);
      for (const [path] of script.matchAll(/(?<![\w/-])(?:tools|\.ci)\/[\w.]+/g)) {
        assert(existsSync(join(root, path)), `${path} does not exist`);
      }
      const { code, output } = await run("bash", ["-n", "-c", script]);
      assertEquals(code, 0, output);
    }
  });

  it("the workflows test on the oldest supported Node", () => {
    const setUp = ci.jobs["test"]?.steps?.find(({ uses }) =>
      uses?.startsWith("actions/setup-node@")
    );
    const [oldest] = /\d+/.exec(npm.engines.node) ?? [];
    assertEquals(setUp?.with?.["node-version"], oldest);
  });

  it("the workflows publish after the tests, and announce after publishing", () => {
    const needs = Object.entries(release.jobs).map(([name, job]) => [name, job.needs]);
    assertEquals(Object.fromEntries(needs), {
      version: undefined,
      test: "version",
      npm: "test",
      jsr: "test",
      announce: ["npm", "jsr"],
    });
    assertEquals(release.jobs["test"]?.uses, "./.github/workflows/ci.yml");
    assert("workflow_call" in ci.on);
    for (const { on } of [release, docs]) assertEquals(on, { push: { tags: ["v*"] } });
  });

  it("the workflows publish to npm only a version that is not there", async () => {
    const step = /^Publish/;
    assertStringIncludes(await play("npm", step, "v1.0.0", false), "npm publish --provenance\n");
    const early = await play("npm", step, "v1.0.0-rc.1", false);
    assertStringIncludes(early, "npm publish --provenance --tag next\n");
    assertEquals(await play("npm", step, "v1.0.0", true), "npm view lastcall@1.0.0 version\n");
  });

  it("the workflows publish only from the repository in the manifest", async () => {
    const [, host, home] = /^git\+(https:\/\/[^/]+)\/(.+)\.git$/.exec(npm.repository.url) ?? [];
    const script = release.jobs["npm"]?.steps?.find(({ name }) => /names this/.test(name ?? ""))
      ?.run;
    const publishFrom = async (repository: string) => {
      const env = { GITHUB_SERVER_URL: host!, GITHUB_REPOSITORY: repository };
      return await run("bash", ["-e", "-o", "pipefail", "-c", script!], { env });
    };
    assertEquals(await publishFrom(home!).then(({ code }) => code), 0);
    const { code, output } = await publishFrom("kitchen/lastcall");
    assertEquals(code, 1);
    assertStringIncludes(output, "kitchen/lastcall.git: see CONTRIBUTING.md");
  });

  it("the workflows announce a version once, and a prerelease as prerelease", async () => {
    const step = /^Release/;
    assertStringIncludes(await play("announce", step, "v1.0.0", false), "--verify-tag --latest");
    assertStringIncludes(await play("announce", step, "v1.0.0-rc.1", false), "--prerelease");
    assertEquals(await play("announce", step, "v1.0.0", true), "gh release view v1.0.0\n");
  });
});
