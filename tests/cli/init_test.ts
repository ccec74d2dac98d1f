import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { FIGURES, RUNTIMES } from "../../cli/init/facts.ts";
import { graceFor } from "../../cli/doctor/stop_checks.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { lastcall } from "./_io.ts";

const npm = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));

/** Runs `lastcall init` and returns the files by name. */
async function init(folder: string, ...flags: readonly string[]) {
  const { code, err } = await lastcall(["init", folder, ...flags]);
  assertEquals({ code, err }, { code: 0, err: "" });
  const files = readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), "utf8")]);
  return Object.fromEntries(files) as Record<string, string>;
}

/** Returns the dependencies that a project names, with their versions. */
function dependencies(files: Record<string, string>): Record<string, string> {
  if (files["package.json"]) return JSON.parse(files["package.json"]).dependencies;
  return JSON.parse(files["deno.json"]!).imports;
}

describe("lastcall init", () => {
  for (const runtime of Object.keys(RUNTIMES)) {
    for (const engine of ENGINES) {
      const [scheme = ""] = engine.schemes;
      if (!(engine.runtimes ?? [runtime]).includes(runtime)) continue;
      it(`lastcall init writes a worker on ${runtime} and ${scheme} with what it needs`, async () => {
        using temp = new TempFolder();
        const folder = join(temp.path, "Order Mails");
        const files = await init(folder, "--runtime", runtime, "--engine", scheme);
        assertEquals(
          Object.keys(files).sort(),
          [
            ".dockerignore",
            "Dockerfile",
            "README.md",
            runtime === "deno" ? "deno.json" : "package.json",
            "kubernetes.yaml",
            "order-mails.service",
            "worker.ts",
          ].sort(),
        );
        const url = engine.starter.url("order-mails", ".");
        assertStringIncludes(files["worker.ts"]!, JSON.stringify(url));
        const { lastcall: own, ...others } = dependencies(files);
        assertStringIncludes(own!, `^${npm.version}`);
        const health = runtime === "deno" ? [] : runtime === "bun" ? ["hono"] : [
          "hono",
          "@hono/node-server",
        ];
        const client = engine.starter.builtInto?.includes(runtime) ? [] : engine.packages ?? [];
        assertEquals(Object.keys(others), [...health, ...client]);
        for (const [name, range] of Object.entries(others)) {
          const [, major] = /\^(\d+)\./.exec(range) ?? [];
          assertEquals(major, npm.devDependencies[name].split(".")[0], `${name} ${range}`);
        }
        assertEquals(files["kubernetes.yaml"]!.includes("PersistentVolumeClaim"), !!engine.file);
        const isServer = !engine.file && !engine.inProcess;
        assertEquals(files["kubernetes.yaml"]!.includes("secretKeyRef"), isServer);
        assertEquals(files["README.md"]!.includes(" send '"), !engine.inProcess);
      });
    }
  }

  it("the grace period of the files fits the shutdown timeout as the doctor recommends", () => {
    const neededMs = graceFor(FIGURES.shutdownTimeoutMs);
    assert(FIGURES.graceSeconds * 1_000 >= neededMs, `${neededMs}`);
  });

  it("lastcall init overwrites nothing, and writes no other file then", async () => {
    using temp = new TempFolder();
    writeFileSync(join(temp.path, "README.md"), "mine");
    writeFileSync(join(temp.path, "worker.ts"), "mine");
    const args = ["init", temp.path, "--runtime", "node", "--engine", "sqlite"];
    const { code, err } = await lastcall(args);
    assertEquals(code, 1);
    assertStringIncludes(err, join(temp.path, "README.md"));
    assertStringIncludes(err, join(temp.path, "worker.ts"));
    assertEquals(readdirSync(temp.path).sort(), ["README.md", "worker.ts"]);
    assertEquals((await lastcall([...args, "--force"])).code, 0);
    assertMatch(readFileSync(join(temp.path, "worker.ts"), "utf8"), /MailboxLoop/);
  });

  it("lastcall init removes what it wrote when a file cannot be written", async () => {
    using temp = new TempFolder();
    symlinkSync("nowhere", join(temp.path, "README.md")); // the last file
    const { code, err } = await lastcall([
      ...["init", temp.path, "--runtime", "node", "--engine", "sqlite"],
    ]);
    assertEquals(code, 1);
    assertMatch(err, /^error: Cannot write to .*: EEXIST/);
    assertEquals(readdirSync(temp.path), ["README.md"]);
  });

  it("lastcall init asks for what is not given, in a terminal", async () => {
    using temp = new TempFolder();
    const folder = join(temp.path, "jobs");
    const { code, err } = await lastcall(["init", folder, "--engine", "sqlite"], { answer: "bun" });
    assertEquals(code, 0);
    assertEquals(err, "Which runtime: node, bun, deno? ");
    assertStringIncludes(readFileSync(join(folder, "Dockerfile"), "utf8"), "oven/bun");
    const wrong = await lastcall(["init", `${folder}2`, "--runtime", "node"], { answer: "paper" });
    assertEquals([wrong.code, existsSync(`${folder}2`)], [2, false]);
    assertStringIncludes(wrong.err, "Unknown engine paper: choose memory, sqlite");
  });

  it("lastcall init refuses wrong usage with exit code 2, and writes nothing", async () => {
    using temp = new TempFolder();
    const folder = join(temp.path, "jobs");
    for (
      const flags of [
        ["--runtime", "node"],
        ["--engine", "sqlite"],
        ["--runtime", "perl", "--engine", "sqlite"],
        ["--runtime", "node", "--engine", "denokv"],
        ["--runtime", "node", "--engine", "sqlite", "--name", "Not A Name"],
      ]
    ) {
      const { code } = await lastcall(["init", folder, ...flags]);
      assertEquals([code, existsSync(folder)], [2, false], flags.join(" "));
    }
  });

  it("lastcall init writes its result as JSON, and takes a name", async () => {
    using temp = new TempFolder();
    const flags = ["--runtime", "deno", "--engine", "denokv", "--name", "mails", "--json"];
    const { json } = await lastcall(["init", temp.path, ...flags]);
    const [{ name, runtime, engine, files }] = json;
    assertEquals({ name, runtime, engine }, { name: "mails", runtime: "deno", engine: "denokv" });
    assert(files.includes("mails.service"));
    const { unstable } = JSON.parse(readFileSync(join(temp.path, "deno.json"), "utf8"));
    assertEquals(unstable, ["kv"]);
  });
});
