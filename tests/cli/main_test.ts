import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { root } from "../../tools/runtimes.ts";
import { lastcall } from "./_io.ts";

test("--version prints the version of the package", async () => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assertEquals(await lastcall(["--version"]).then(({ out }) => out), `${version}\n`);
});

test("lastcall without arguments prints the help", async () => {
  const { code, out } = await lastcall([]);
  assertEquals(code, 0);
  assertStringIncludes(out, "Exit codes:");
});

test("an unknown command exits 2 and suggests a similar one", async () => {
  const { code, out, err } = await lastcall(["cuont"]);
  assertEquals({ code, out }, { code: 2, out: "" });
  assertMatch(err, /^error: Unknown command 'cuont' \(Did you mean count\?\)\n/);
});

test("an unknown option exits 2", async () => {
  const { code, err } = await lastcall(["count", "--colour"]);
  assertEquals(code, 2);
  assertStringIncludes(err, "Unknown option '--colour'");
});

test("--json writes errors as JSON to standard error", async () => {
  const { code, out, err } = await lastcall(["count", "memory:", "--json"]);
  assertEquals({ code, out }, { code: 2, out: "" });
  assertEquals(JSON.parse(err).error.code, "usage");
});

test("errors are coloured on a terminal without NO_COLOR", async () => {
  const coloured = await lastcall(["nothing"], { interactive: true });
  assertStringIncludes(coloured.err, "\x1b[31m");
  const plain = await lastcall(["nothing"], { interactive: true, env: { NO_COLOR: "1" } });
  assertEquals(plain.err.includes("\x1b"), false);
});
