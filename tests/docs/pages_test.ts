import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { InMemoryMailbox, LoopGroup, MailboxLoop } from "../../mod.ts";
import { healthApp } from "../../src/health/mod.ts";
import { root } from "../../tools/runtimes.ts";
import { documents } from "./_documents.ts";

const checklist = readFileSync(join(root, "docs/production.md"), "utf8");

/** The items of a list to tick, each with its following lines. */
function items(text: string): readonly string[] {
  return text.split(/^- \[ \] /m).slice(1).map((item) => item.split(/\n\n|\n(?! )/)[0]!);
}

test("every item of the production checklist says how to check it", () => {
  assertGreater(items(checklist).length, 25);
  assertEquals(items(checklist).filter((item) => !item.includes("Check:")), []);
});

test("an item without a check is found", () => {
  assertEquals(items("- [ ] One.\n      Check: look.\n- [ ] Two.\n\nCheck: no item."), [
    "One.\n      Check: look.",
    "Two.",
  ]);
});

test("every metric that a guide names is exported", async () => {
  const mailbox = new InMemoryMailbox<string>("mails");
  await mailbox.rateLimit({ max: 1, perMs: 1_000 });
  const group = new LoopGroup([new MailboxLoop({ mailbox, handler: () => {} })]);
  const text = await (await healthApp(group).request("/metrics")).text();
  const exported = new Set([...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name));
  for (const path of ["docs/production.md", "docs/recipes/kubernetes_keda.md"]) {
    const named = readFileSync(join(root, path), "utf8").match(/lastcall_[a-z_]+/g) ?? [];
    assertGreater(named.length, 0);
    const unknown = named.filter((name) => !exported.has(name.replace(/_bucket$/, "")));
    assertEquals(unknown, [], path);
  }
});

test("the upgrade notes name the entry point of every name that has moved", () => {
  const { exports } = JSON.parse(readFileSync(join(root, "deno.json"), "utf8"));
  const rows = readFileSync(join(root, "docs/upgrading.md"), "utf8")
    .matchAll(/^\| `lastcall\/(\w+)` +\| (.*) \|$/gm);
  const count = [...rows].reduce((sum, [, entry, names = ""]) => {
    const module = readFileSync(join(root, exports[`./${entry}`]), "utf8");
    const named = [...names.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name);
    const missing = named.filter((name) => !new RegExp(`\\b${name}\\b`).test(module));
    assertEquals(missing, [], `lastcall/${entry}`);
    return sum + named.length;
  }, 0);
  assertGreater(count, 80);
});

test("there are twelve recipes, and each has a program, its output, a stop and a crash", () => {
  const recipes = documents.filter(({ path }) => /^docs\/recipes\/(?!README)/.test(path));
  assertEquals(recipes.length, 12);
  const index = readFileSync(join(root, "docs/recipes/README.md"), "utf8");
  for (const { path, blocks } of recipes) {
    const text = readFileSync(join(root, path), "utf8");
    assertEquals(index.includes(`](${path.replace("docs/recipes/", "")})`), true, path);
    assertEquals(blocks.some(({ markers }) => markers.has("file")), true, path);
    assertEquals(blocks.some(({ language }) => language === "console"), true, path);
    const headings = text.match(/^## .*$/gm);
    const wanted = ["## Why it is written so", "## On a stop and on a crash", "## Related"];
    assertEquals(headings, wanted, path);
    assertEquals(text.split("\n").length <= 125, true, `${path} is long`);
  }
});
