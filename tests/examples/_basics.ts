import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { root } from "../../tools/runtimes.ts";
import { freePort } from "../engines/_servers.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { ended, everywhere, type Host, start, stopped } from "./_example.ts";

/** Loops, groups, leases, a file, health, and a script. */
export function basics(it: Host): void {
  it(
    "3: a leased message is handled once, and a stuck handler loses its lease",
    everywhere,
    async () => {
      await using kitchen = start("03_leases");
      const [without = "", once = "", stuck = ""] = (await ended(kitchen)).split("\n\n");
      for (const line of ["begun, attempt 2", "acknowledged 0"]) {
        assertStringIncludes(
          without,
          line,
        );
      }
      for (const line of ["begun, attempt 1", "received 1, acknowledged 1"]) {
        assertStringIncludes(once, line);
      }
      for (const line of ["lease lost, attempt 1", "done, attempt 2", "acknowledged 1"]) {
        assertStringIncludes(stuck, line);
      }
    },
  );

  it("1: the current order is packed, and no other", everywhere, async () => {
    await using loop = start("01_single_loop");
    await loop.says("order 1: packing");
    const said = await stopped(loop, "SIGINT");
    assertStringIncludes(said, "order 1: packed, and that was the last one");
    assert(!said.includes("order 2"), said);
  });

  it("2: a group stops in order and counts every message", everywhere, async () => {
    await using group = start("02_group");
    await group.says("is served");
    const said = await stopped(group);
    assertMatch(said, /kitchen: ended.* received (\d+): \1 acknowledged/);
    assertMatch(said, /> draining \(SIGTERM\)[^]*the till is closed[^]*exit code 0/);
  });

  it("4: a stopped worker continues with the next page", everywhere, async () => {
    using folder = new TempFolder();
    await using first = start("04_sqlite", { cwd: folder.path });
    await first.says("page 2 of 8");
    const pages = (await stopped(first)).match(/page \d+ of 8/g) ?? [];
    await using second = start("04_sqlite", { cwd: folder.path });
    await second.says(" of 8");
    const said = await stopped(second);
    assertStringIncludes(said, "3 books are left from last time");
    assertMatch(said, new RegExp(`press\\.\nThe Tide Tables, page ${pages.length + 1} of 8`));
  });

  it("7: the group is healthy, is paused with the token, and ends", everywhere, async () => {
    const port = String(await freePort());
    const token = "correct-horse-battery";
    await using post = start("07_health", { args: [port], env: { HEALTH_TOKEN: token } });
    await post.says("healthy at");
    const ask = async (path: string, init: RequestInit = {}) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
      return { status: response.status, text: await response.text() };
    };
    const ready = await ask("/health/ready?verbose");
    assertEquals(ready.status, 200, ready.text);
    assertStringIncludes(ready.text, "ok not too many letters");
    const metrics = (await ask("/metrics")).text;
    assertMatch(metrics, /lastcall_mailbox_messages\{mailbox="letters",state="waiting"\}/);
    assertEquals((await ask("/pause", { method: "POST" })).status, 401);
    const headers = { authorization: `Bearer ${token}` };
    assertEquals((await ask("/pause", { method: "POST", headers })).status, 202);
    assertEquals((await ask("/health/ready")).status, 503);
    await stopped(post);
  });

  it("12: an interrupted script continues at the next line", everywhere, async () => {
    using folder = new TempFolder();
    const file = folder.file("poem.txt");
    writeFileSync(file, "one two three\n".repeat(25));
    await using first = start("12_bun_script", { args: [file] });
    await first.says("3: 3 words");
    const [, last] = /stopped after line (\d+)/.exec(await stopped(first, "SIGINT")) ?? [];
    await using second = start("12_bun_script", { args: [file] });
    const said = await ended(second);
    assertStringIncludes(said, `going on at line ${Number(last) + 1} of 25`);
    assertStringIncludes(said, "all 25 lines are done");
    assert(!existsSync(`${file}.bookmark`), "the bookmark is taken out");
  });

  it("12: a script without an argument prints how to start it", everywhere, async () => {
    await using script = start("12_bun_script");
    assertStringIncludes(await ended(script, 2), "Which file?");
  });

  it("12: it can be started by its name", everywhere, () => {
    const path = `${root}/examples/12_bun_script.ts`;
    assert(readFileSync(path, "utf8").startsWith("#!/usr/bin/env bun\n"));
    assertEquals(statSync(path).mode & 0o111, 0o111, "it is executable");
    return Promise.resolve();
  });
}
