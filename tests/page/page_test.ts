/// <reference lib="dom" />

import { after, describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Hono } from "hono";
import { InMemoryMailbox, MailboxLoop, silentLog, StepLoop } from "../../mod.ts";
import { nodeRuntime } from "../../runtime_adapters/node.ts";
import { Board } from "../../src/coordination/mod.ts";
import { healthApp } from "../../src/health/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { FaultyMailbox } from "../../src/testing/mod.ts";
import { findChromium, launchChromium } from "../../tools/chromium.ts";
import { flaws, Look, Stage, TOKEN } from "./_browser.ts";

const path = findChromium();
const skip = path === undefined ? "no Chromium found: set LASTCALL_CHROMIUM" : false;
const browser = path === undefined ? undefined! : await launchChromium(path);
after(async () => await browser?.close());

const REFUSED = /401/;
const idle = (name: string) => new StepLoop(name, ({ sleep }) => sleep(60_000));

/** Makes a loop whose handler waits for `go`, or fails. */
function kitchen(options: { readonly fails?: boolean; readonly concurrency?: number } = {}) {
  const mailbox = new InMemoryMailbox<string>("orders");
  const go = deferred();
  const loop = new MailboxLoop<string>({
    name: "kitchen",
    mailbox,
    concurrency: options.concurrency ?? 8,
    deadLetter: { maxDeliveries: 1 },
    handler: async () => {
      if (options.fails) throw new Error("no stove at stove://ada:secret@kitchen");
      await go.promise;
    },
    log: silentLog,
  });
  return { mailbox, go, loop };
}

describe("the live page", { skip }, () => {
  it("shows loops, mailboxes and agents, and no controls without a token", async () => {
    const { mailbox, go, loop } = kitchen();
    await mailbox.send("tea", { id: "tea" });
    const board = new Board({ log: silentLog });
    await board.setState("waiter-1", "running");
    await using stage = await Stage.start([loop, idle("cleaner")], { health: { board } });
    {
      await using look = await Look.at(browser, stage.url);
      const { page } = look;
      await page.getByRole("banner").getByText("Running", { exact: true }).waitFor();
      assertEquals(await page.title(), "Running · lastcall");
      assertMatch(await look.row(/^Loops/, "kitchen").innerText(), /from orders\s+running\s+1\s/);
      assertMatch(await look.row(/^Loops/, "cleaner").innerText(), /running/);
      assertMatch(await look.row(/^Mailboxes/, "orders").innerText(), /reachable memory\s+1\s+0/);
      assertMatch(await look.row(/^Agents/, "waiter-1").innerText(), /running/);
      assertEquals(await page.getByRole("button", { name: /unlock|drain/i }).count(), 0);

      await page.getByRole("button", { name: "kitchen", expanded: false }).press("Enter");
      await page.getByRole("list", { name: "Oldest work of kitchen" }).getByText("tea")
        .waitFor();
      assertEquals(await page.getByRole("main").count(), 1);
      assertEquals(await page.getByRole("columnheader", { name: "Oldest" }).count(), 1);
      assertEquals(
        await page.getByRole("status").innerText(),
        "The group is running and takes work.",
      );
    }
    go.resolve();
    await board.close();
  });

  it("follows a shutdown with its remaining time and its work in flight", async () => {
    const { mailbox, go, loop } = kitchen();
    await mailbox.send("tea", { id: "tea" });
    await using stage = await Stage.start([loop]);
    await using look = await Look.at(browser, stage.url, { expected: /Failed to load resource/ });
    const { page } = look;
    const stopped = stage.group.shutdown({ timeoutMs: 30_000 });
    const step = page.getByRole("listitem").filter({ hasText: "Draining" });
    await page.getByText("The group takes no new work and finishes").first().waitFor();
    assertEquals(await step.getAttribute("aria-current"), "step");
    await page.getByRole("progressbar", { name: "Time used" }).waitFor();
    assertMatch(
      await page.getByText(/ left of /).innerText(),
      /^(30\.0|2\d\.\d) s left of 30\.0 s$/,
    );
    await look.row(/^Work in flight/, "tea").waitFor();
    assertEquals(await page.title(), "Draining, 1 in flight · lastcall");
    assertMatch(await page.getByRole("status").innerText(), /finishes the work in flight/);
    assertEquals(await flaws(page), []);
    go.resolve();
    await stopped;
    await page.getByRole("banner").getByText("Stopped", { exact: true }).waitFor();
    await page.getByText(/^Took/).waitFor();
    await page.getByText(/Connection lost/).waitFor();
    assertEquals(await page.title(), "Stopped · lastcall");
    const ticked = await page.locator(".steps .past").allInnerTexts();
    assertEquals(ticked, ["Running", "Unready", "Draining", "Stopped"]);
    assertMatch(await page.locator(".steps .skipped").innerText(), /^Cancelling/);
    const fact = (name: string) => page.locator("dt", { hasText: name }).locator("+ dd");
    assertEquals(await fact("Outcome").innerText(), "drained");
    assertEquals(await fact("Exit code").innerText(), "0");
    assertEquals(await fact("Loops ready").first().innerText(), "0/1");
    assertEquals(
      await page.getByRole("status").innerText(),
      "The group has stopped: drained, exit code 0.",
    );
    assertEquals(await flaws(page), []);
  });

  it("shows the outcome and the exit code of a shutdown that timed out", async () => {
    const { mailbox, go, loop } = kitchen();
    await mailbox.send("tea", { id: "tea" });
    await using stage = await Stage.start([loop]);
    await using look = await Look.at(browser, stage.url, { expected: /Failed to load resource/ });
    const { page } = look;
    await look.row(/^Loops/, "kitchen").getByRole("cell", { name: "1", exact: true }).first()
      .waitFor();
    assertEquals(await stage.group.shutdown({ timeoutMs: 300 }), false);
    await page.getByText("The group has stopped: timed out, exit code 124.").first().waitFor();
    const ticked = await page.locator(".steps .past").allInnerTexts();
    assertEquals(ticked, ["Running", "Unready", "Draining", "Cancelling", "Stopped"]);
    go.resolve();
  });

  it("shows when an engine is unreachable, and when it is back", async () => {
    const mailbox = new FaultyMailbox<string>("orders");
    const loop = new MailboxLoop({ mailbox, handler: () => {}, log: silentLog });
    await using stage = await Stage.start([loop]);
    await using look = await Look.at(browser, stage.url);
    const row = look.row(/^Mailboxes/, "orders");
    await row.getByText("reachable", { exact: true }).waitFor();
    await row.getByText("memory").waitFor();
    mailbox.loseConnection();
    await row.getByText("unreachable", { exact: true }).waitFor();
    await row.getByText("memory").waitFor();
    await row.getByText("The connection is lost: no answer to count").waitFor();
    await look.page.getByText("1 unreachable").waitFor();
    mailbox.restoreConnection();
    await row.getByText("reachable", { exact: true }).waitFor();
  });

  it("refuses a wrong token", async () => {
    await using stage = await Stage.start([idle("cleaner")], { health: { token: TOKEN } });
    await using look = await Look.at(browser, stage.url, { expected: REFUSED });
    const { page } = look;
    for (const wrong of ["0123456789abcdeX", "ключ"]) {
      if (wrong !== "ключ") await look.unlock(wrong);
      else {
        await page.getByLabel("Token").fill(wrong);
        await page.keyboard.press("Enter");
      }
      await page.getByText("Wrong token.").waitFor();
    }
    assertEquals(await page.getByRole("button", { name: "Drain" }).count(), 0);
    assertEquals(await page.evaluate(() => sessionStorage.length), 0);
  });

  it("drains after a confirmation and resumes, with the token", async () => {
    await using stage = await Stage.start([idle("cleaner")], { health: { token: TOKEN } });
    await using look = await Look.at(browser, stage.url);
    const { page } = look;
    await look.unlock(TOKEN);
    const drain = page.getByRole("button", { name: "Drain", exact: true }).first();
    await drain.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Drain this group?" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert(await drain.evaluate((it) => it === document.activeElement), "the focus is back");
    assert(!stage.group.health().paused, "the dialog was cancelled");

    await drain.press("Enter");
    await dialog.getByRole("button", { name: "Drain" }).press("Enter");
    await page.getByRole("banner").getByText("Drained", { exact: true }).waitFor();
    assert(stage.group.health().paused);
    await page.reload();
    await page.getByRole("button", { name: "Resume" }).press("Enter"); // this tab still has the token
    await page.getByRole("banner").getByText("Running", { exact: true }).waitFor();
    assert(!stage.group.health().paused);

    await page.getByRole("button", { name: "Lock" }).press("Enter");
    await page.getByRole("button", { name: "Unlock controls" }).waitFor();
    assertEquals(await page.evaluate(() => sessionStorage.length), 0);
  });

  it("shows dead letters to all users, their errors only with the token, and redrives them", async () => {
    const { mailbox, loop } = kitchen({ fails: true });
    await mailbox.send("tea", { id: "tea" });
    await using stage = await Stage.start([loop], { health: { token: TOKEN } });
    await using look = await Look.at(browser, stage.url);
    const { page } = look;
    const row = look.row(/^Dead letters of orders/, "tea");
    assertMatch(await row.innerText(), /max deliveries\s+1\s/);
    assert(!(await page.content()).includes("secret"));
    await look.unlock(TOKEN);
    await row.getByText("no stove at stove://ada:secret@kitchen").waitFor();
    await page.getByRole("button", { name: "Redrive" }).press("Enter");
    await page.getByRole("dialog", { name: "Redrive orders?" })
      .getByRole("button", { name: "Redrive" }).press("Enter");
    await page.getByText("1 message sent back.").waitFor();
    await look.row(/^Loops/, "kitchen").getByRole("cell", { name: "2", exact: true }).waitFor();
  });

  it("limits the list of 10,000 messages in flight, and counts them all", async () => {
    const rooms = Array.from({ length: 10 }, (_, i) => {
      const mailbox = new InMemoryMailbox<number>(`room-${i}`);
      return { mailbox, go: deferred() };
    });
    const loops = rooms.map(({ mailbox, go }) =>
      new MailboxLoop({ mailbox, concurrency: 1_000, handler: () => go.promise, log: silentLog })
    );
    for (const { mailbox } of rooms) {
      await mailbox.sendMany(Array.from({ length: 1_000 }, (_, i) => i));
    }
    await using stage = await Stage.start(loops);
    {
      await using look = await Look.at(browser, stage.url);
      const { page } = look;
      await page.getByRole("region", { name: "Overview" }).getByText("10\u202f000").first()
        .waitFor();
      await page.getByRole("button", { name: "room-3" }).click();
      const list = page.getByRole("list", { name: "Oldest work of room-3" });
      assertEquals(await list.getByRole("listitem").count(), 20);
      await page.getByText("and 980 more").waitFor();
    }
    for (const { go } of rooms) go.resolve();
  });

  it("shows 100 of 1,000 loops, failed ones first, and how many more there are", async () => {
    const loops = Array.from({ length: 1_000 }, (_, i) =>
      i === 999
        ? new StepLoop("broken", () => {
          throw new Error("broken");
        })
        : idle(`loop-${i}`));
    await using stage = await Stage.start(loops, { onFailure: "ignore" });
    await using look = await Look.at(browser, stage.url);
    const { page } = look;
    await look.row(/^Loops/, "broken").getByText("failed").waitFor();
    const table = page.getByRole("table", { name: /^Loops/ });
    assertEquals(await table.getByRole("rowheader").count(), 100);
    await page.getByText("and 900 more loops").waitFor();
    await page.getByText("/1\u202f000").waitFor();
  });

  it("reconnects after its process was replaced", async () => {
    const first = await Stage.start([idle("old")]);
    await using look = await Look.at(browser, first.url, { expected: /Failed to load resource/ });
    const { page } = look;
    await first[Symbol.asyncDispose]();
    await page.getByText(/Connection lost/).waitFor();
    await using _second = await Stage.start([idle("new")], { healthPort: first.port });
    await look.row(/^Loops/, "new").waitFor();
    await page.getByText(/^Live\. Last update/).waitFor();
    assertEquals(await page.title(), "Running · lastcall");
  });

  it("works under the path where it is mounted", async () => {
    await using stage = await Stage.start([idle("cleaner")]);
    const app = new Hono().route("/ops", healthApp(stage.group, { log: silentLog }));
    const server = await nodeRuntime.serve!((request) => app.fetch(request), {
      port: 0,
      hostname: "127.0.0.1",
    });
    {
      await using look = await Look.at(browser, `http://127.0.0.1:${server.port}/ops`);
      await look.row(/^Loops/, "cleaner").waitFor();
      const status = look.page.getByRole("link", { name: "status" });
      assertEquals(await status.getAttribute("href"), "/ops/status");
    }
    await server.close({ signal: AbortSignal.abort() });
  });

  it("is accessible in light and dark mode, also 320 pixels wide", async () => {
    const { mailbox, loop } = kitchen({ fails: true });
    await mailbox.send("tea", { id: "a-rather-long-id-of-a-message-that-failed-0001" });
    await using stage = await Stage.start([loop, idle("cleaner")], { health: { token: TOKEN } });
    for (const colorScheme of ["light", "dark"] as const) {
      const viewport = { width: 320, height: 640 };
      await using look = await Look.at(browser, stage.url, { colorScheme, viewport });
      const { page } = look;
      await look.unlock(TOKEN);
      await page.getByRole("button", { name: "Redrive" }).waitFor();
      assertEquals(await flaws(page), [], colorScheme);
      assertEquals(await page.evaluate(() => document.documentElement.scrollWidth), 320);
      await page.setViewportSize({ width: 1_280, height: 800 });
      assertEquals(await flaws(page), [], colorScheme);
    }
  });
});
