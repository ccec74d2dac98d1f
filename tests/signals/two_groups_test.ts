import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Child } from "./_child.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Another copy of the package, as two versions of a dependency are. */
function copyOfThePackage(): string {
  const folder = mkdtempSync(join(tmpdir(), "lastcall-copy-"));
  for (const part of ["mod.ts", "src", "runtime_adapters", "package.json"]) {
    cpSync(join(root, part), join(folder, part), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return folder;
}

describe("two groups with main()", () => {
  const folder = copyOfThePackage();
  after(() => rmSync(folder, { recursive: true }));

  for (const [whose, path] of [["of one copy", ""], ["of two copies", join(folder, "mod.ts")]]) {
    it(`${whose} of the package both drain before the process ends, exit code 0`, async () => {
      await using child = Child.start("two_groups", { args: [path!] });
      await child.line("ready");
      child.kill("SIGTERM");
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stdout, stderr], [0, "ready\nfinished\n", ""]);
    });

    it(`${whose} of the package end the process with the worst exit code`, async () => {
      await using child = Child.start("two_groups", { args: [path!, "failing"] });
      await child.line("ready");
      child.kill("SIGTERM");
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stdout], [1, "ready\nfinished\n"]);
      assertStringIncludes(stderr, "the slow loop failed");
    });
  }
});
