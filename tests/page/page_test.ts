/// <reference lib="dom" />

import process from "node:process";
import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Hono } from "hono";
import { InMemoryMailbox, MailboxLoop, silentLog, StepLoop } from "../../mod.ts";
import { nodeRuntime } from "../../runtime_adapters/node.ts";
import { CronLoop } from "../../src/cron/mod.ts";
import { healthApp } from "../../src/health/mod.ts";
import { deferred } from "../../src/_promises.ts";
import { eventSize, flaws, PageGroup, PageView, TOKEN } from "./_browser.ts";
import { browser, skip } from "./_chromium.ts";

const REFUSED = /401/;
const idle = (name: string) => new StepLoop(name, ({ sleep }) => sleep(60_000));

/** Returns a loop whose handler waits for `go`, or fails. */
function orderLoop(options: { readonly fails?: boolean; readonly concurrency?: number } = {}) {
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
  it("the live page shows loops and mailboxes, and no controls without a token", async () => {
    const { mailbox, go, loop } = orderLoop();
    await mailbox.send("tea", { id: "tea" });
    await using served = await PageGroup.start([loop, idle("cleaner")]);
    {
      await using view = await PageView.at(browser, served.url);
      const { page } = view;
      await page.getByRole("banner").getByText("Running", { exact: true }).waitFor();
      assertEquals(await page.title(), "Running · worker-1 · lastcall");
      assertMatch(await view.row(/^Loops/, "kitchen").innerText(), /from orders\s+running\s+1\s/);
      assertMatch(await view.row(/^Loops/, "cleaner").innerText(), /running/);
      assertMatch(
        await view.row(/^Mailboxes/, "orders").innerText(),
        /reachable memory\s+0\s+–\s+0\s+1\s+0/,
      );
      assertEquals(await page.getByRole("button", { name: /unlock|pause/i }).count(), 0);

      await page.getByRole("button", { name: "kitchen", expanded: false }).press("Enter");
      await page.getByRole("list", { name: "Oldest work of kitchen" }).getByText("tea")
        .waitFor();
      assertEquals(await page.getByRole("main").count(), 1);
      assertEquals(
        await page.getByRole("columnheader", { name: "Oldest", exact: true }).count(),
        1,
      );
      assertEquals(
        await page.getByRole("status").innerText(),
        "The group is running and takes work.",
      );
    }
    go.resolve();
  });

  it("the live page names the process: its name, version, pid, uptime and runtime", async () => {
    await using served = await PageGroup.start([idle("cleaner")], {
      health: { name: "kitchen-7", version: "2.4.1" },
    });
    await using view = await PageView.at(browser, served.url);
    const { page } = view;
    await page.getByRole("heading", { name: "kitchen-7", level: 1 }).waitFor();
    const fact = (name: string) => {
      return page.getByRole("banner").locator("dt", { hasText: name }).locator("+ dd").innerText();
    };
    assertEquals(await fact("Version"), "2.4.1");
    assertEquals(await fact("Pid"), String(process.pid));
    assertEquals(await fact("Runtime"), "node");
    assertMatch(await fact("Uptime"), /^\d+(\.\d)? m?s$/);
    assertMatch(await fact("lastcall"), /^\d+\.\d+\.\d+/);
  });

  it("the live page keeps the focus when a link leads to another view", async () => {
    const { mailbox, go, loop } = orderLoop({ concurrency: 1 });
    await mailbox.sendMany(["tea", "cake"]);
    await using served = await PageGroup.start([loop]);
    {
      await using view = await PageView.at(browser, served.url);
      const { page } = view;
      await view.row(/^Mailboxes/, "orders").locator('[data-label="Waiting"] a').press("Enter");
      await page.locator("main:focus").waitFor();
      await page.getByText("This process has no token. Set health.token to read messages.")
        .waitFor();
      await page.goBack();
      await page.getByRole("heading", { name: "Loops" }).waitFor();
      await page.goto(`${served.url}#/nowhere`);
      await page.getByRole("heading", { name: "Loops" }).waitFor();
    }
    go.resolve();
  });

  it("the live page shows how far a message is: its attempt and its finished steps", async () => {
    const mailbox = new InMemoryMailbox<string>("orders");
    const [go, printed] = [deferred(), deferred()];
    const loop = new MailboxLoop<string>({
      mailbox,
      name: "kitchen",
      backoff: { minMs: 1, maxMs: 1 },
      handler: async (_, { step, attempt }) => {
        await step("charge <b>", () => 1);
        if (attempt === 1) throw new Error("no paper");
        await step("print", () => 2);
        printed.resolve();
        await go.promise;
      },
      log: silentLog,
    });
    await mailbox.send("tea", { id: "tea" });
    await using served = await PageGroup.start([loop]);
    {
      await using view = await PageView.at(browser, served.url);
      await printed.promise;
      const { page } = view;
      await page.getByRole("button", { name: "kitchen", expanded: false }).press("Enter");
      await page.getByRole("list", { name: "Oldest work of kitchen" })
        .getByText("attempt 2, 2 finished steps: charge <b>, print", { exact: true }).waitFor();
      assertEquals(await flaws(page), []);
    }
    go.resolve();
  });

  it("the live page follows a shutdown with its remaining time and its work in flight", async () => {
    const { mailbox, go, loop } = orderLoop();
    await mailbox.send("tea", { id: "tea" });
    await using served = await PageGroup.start([loop]);
    await using view = await PageView.at(browser, served.url, {
      expected: /Failed to load resource/,
    });
    const { page } = view;
    const stopped = served.group.shutdown({ timeoutMs: 30_000 });
    const step = page.getByRole("listitem").filter({ hasText: "Draining" });
    await page.getByText("The group takes no new work and finishes").first().waitFor();
    assertEquals(await step.getAttribute("aria-current"), "step");
    await page.getByRole("progressbar", { name: "Time used" }).waitFor();
    assertMatch(
      await page.getByText(/ left of /).innerText(),
      /^(30\.0|2\d\.\d) s left of 30\.0 s$/,
    );
    await view.row(/^Work in flight/, "tea").waitFor();
    assertEquals(await page.title(), "Draining, 1 in flight · worker-1 · lastcall");
    assertMatch(await page.getByRole("status").innerText(), /finishes the work in flight/);
    assertEquals(await flaws(page), []);
    go.resolve();
    await stopped;
    await page.getByRole("banner").getByText("Stopped", { exact: true }).waitFor();
    await page.getByText(/^Took/).waitFor();
    await page.getByText(/^The process has ended\. Last update at .* Waiting for the next process/)
      .waitFor();
    assertEquals(await page.title(), "Stopped · worker-1 · lastcall");
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

  it("the live page shows the outcome and the exit code of a shutdown that timed out", async () => {
    const { mailbox, go, loop } = orderLoop();
    await mailbox.send("tea", { id: "tea" });
    await using served = await PageGroup.start([loop]);
    await using view = await PageView.at(browser, served.url, {
      expected: /Failed to load resource/,
    });
    const { page } = view;
    await view.row(/^Loops/, "kitchen").getByRole("cell", { name: "1", exact: true }).first()
      .waitFor();
    assertEquals(await served.group.shutdown({ timeoutMs: 300 }), false);
    await page.getByText("The group has stopped: timed out, exit code 124.").first().waitFor();
    const ticked = await page.locator(".steps .past").allInnerTexts();
    assertEquals(ticked, ["Running", "Unready", "Draining", "Cancelling", "Stopped"]);
    go.resolve();
  });

  it("the live page does not tick the phases that a failure has skipped", async () => {
    const fail = deferred();
    const broken = new StepLoop("broken", async () => {
      await fail.promise;
      throw new Error("no gas");
    });
    await using served = await PageGroup.start([broken]);
    await using view = await PageView.at(browser, served.url, {
      expected: /Failed to load resource/,
    });
    const { page } = view;
    fail.resolve();
    await page.getByText("The group has stopped: failed, exit code 1.").first().waitFor();
    await served.stopped();
    const { phases } = served.group.health();
    const ticked = await page.locator(".steps .past").allInnerTexts();
    assertEquals(ticked.map((it) => it.toLowerCase()), phases.filter((it) => it !== "starting"));
    assert(!ticked.includes("Cancelling"), "no work was cancelled");
    assertMatch(await page.locator(".steps .skipped").first().innerText(), /, skipped$/);
    assertEquals(
      await page.locator("dt", { hasText: "Exit code" }).locator("+ dd").innerText(),
      "1",
    );
  });

  it("the live page refuses a wrong token", async () => {
    await using served = await PageGroup.start([idle("cleaner")], { health: { token: TOKEN } });
    await using view = await PageView.at(browser, served.url, { expected: REFUSED });
    const { page } = view;
    for (const wrong of ["0123456789abcdeX", "ключ"]) {
      if (wrong !== "ключ") await view.unlock(wrong);
      else {
        await page.getByLabel("Token").fill(wrong);
        await page.keyboard.press("Enter");
      }
      await page.getByText("Wrong token.").waitFor();
    }
    assertEquals(await page.getByRole("button", { name: "Pause" }).count(), 0);
    assertEquals(await page.evaluate(() => sessionStorage.length), 0);
  });

  it("the live page pauses after a confirmation and resumes, with the token", async () => {
    await using served = await PageGroup.start([idle("cleaner")], { health: { token: TOKEN } });
    await using view = await PageView.at(browser, served.url);
    const { page } = view;
    await view.unlock(TOKEN);
    const pause = page.getByRole("button", { name: "Pause", exact: true }).first();
    await pause.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Pause this group?" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert(await pause.evaluate((it) => it === document.activeElement), "the focus is back");
    assert(!served.group.health().paused, "the dialog was cancelled");

    await pause.press("Enter");
    await dialog.getByRole("button", { name: "Pause" }).press("Enter");
    await page.getByRole("banner").getByText("Paused", { exact: true }).waitFor();
    assert(served.group.health().paused);
    await page.reload();
    await page.getByRole("button", { name: "Resume" }).press("Enter"); // this tab still has the token
    await page.getByRole("banner").getByText("Running", { exact: true }).waitFor();
    assert(!served.group.health().paused);

    await page.getByRole("button", { name: "Lock" }).press("Enter");
    await page.getByRole("button", { name: "Unlock controls" }).waitFor();
    assertEquals(await page.evaluate(() => sessionStorage.length), 0);
  });

  it("the live page limits the list of 10,000 messages in flight, and counts them all", async () => {
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
    await using served = await PageGroup.start(loops);
    {
      await using view = await PageView.at(browser, served.url);
      const { page } = view;
      await page.getByRole("region", { name: "Totals" }).getByText("10\u202f000").first()
        .waitFor();
      await page.getByRole("button", { name: "room-3" }).click();
      const list = page.getByRole("list", { name: "Oldest work of room-3" });
      assertEquals(await list.getByRole("listitem").count(), 20);
      await page.getByText("and 980 more").waitFor();
    }
    for (const { go } of rooms) go.resolve();
  });

  it("the live page shows 100 of 1,000 loops, failed ones first, and finds the others", async () => {
    const loops = Array.from({ length: 1_000 }, (_, i) =>
      i === 999
        ? new StepLoop("broken", () => {
          throw new Error("broken");
        })
        : idle(`loop-${i}`));
    await using served = await PageGroup.start(loops, { onFailure: "ignore" });
    await using view = await PageView.at(browser, served.url);
    const { page } = view;
    const table = page.getByRole("table", { name: /^Loops/ });
    const names = () => table.getByRole("rowheader").allInnerTexts();
    await view.row(/^Loops/, "broken").getByText("failed").waitFor();
    assertEquals((await names()).length, 100);
    assertEquals((await names())[0], "broken");
    await page.getByText("and 900 more loops").waitFor();
    await page.getByText("/1\u202f000").waitFor();

    const found = page.getByRole("search", { name: "Find a loop" }).getByRole("status");
    await page.getByLabel("Name of the loop").fill("OOP-77");
    await found.getByText("11 loops found").waitFor();
    assertEquals(await names(), [
      "loop-77",
      ...Array.from({ length: 10 }, (_, i) => `loop-77${i}`),
    ]);
    await page.getByLabel("State").selectOption("failing");
    await page.getByText("No loops match.").waitFor();
    await page.getByLabel("Name of the loop").fill("");
    await found.getByText("1 loop found").waitFor();
    assertEquals(await names(), ["broken"]);
    await page.getByLabel("State").selectOption("idle");
    await found.getByText("1\u202f000 loops found").waitFor();
    await page.getByText("and 900 more loops").waitFor();
    assertEquals(await flaws(page), []);
    assert(await eventSize(served.url) < 60_000);
  });

  it("the live page shows the last and the next slot of a cron loop", async () => {
    const mailbox = new InMemoryMailbox<string>("reports");
    const sent = deferred();
    const loops = [
      new CronLoop({ name: "every-second", schedule: "* * * * * *", mailbox, body: "report" }),
      new MailboxLoop({ mailbox, handler: () => sent.resolve(), log: silentLog }),
    ];
    await using served = await PageGroup.start(loops);
    await using view = await PageView.at(browser, served.url);
    await sent.promise;
    await view.row(/^Loops/, "every-second")
      .getByText(/^next \d+:\d\d:\d\d.*, in \d.* m?s; last \d+:\d\d:\d\d/).waitFor();
  });

  it("the live page reconnects after its process was replaced", async () => {
    const first = await PageGroup.start([idle("old")]);
    await using view = await PageView.at(browser, first.url, {
      expected: /Failed to load resource/,
    });
    const { page } = view;
    await first[Symbol.asyncDispose]();
    await page.getByText(/^The process has ended/).waitFor();
    await using _second = await PageGroup.start([idle("new")], { healthPort: first.port });
    await view.row(/^Loops/, "new").waitFor();
    await page.getByText(/^Live\. Last update/).waitFor();
    assertEquals(await page.title(), "Running · worker-1 · lastcall");
  });

  it("the live page works under the path where it is mounted", async () => {
    await using served = await PageGroup.start([idle("cleaner")]);
    const app = new Hono().route("/ops", healthApp(served.group, { log: silentLog }));
    const server = await nodeRuntime.serve!((request) => app.fetch(request), {
      port: 0,
      hostname: "127.0.0.1",
    });
    {
      await using view = await PageView.at(browser, `http://127.0.0.1:${server.port}/ops`);
      await view.row(/^Loops/, "cleaner").waitFor();
      const status = view.page.getByRole("link", { name: "status" });
      assertEquals(await status.getAttribute("href"), "/ops/status");
    }
    await server.close({ signal: AbortSignal.abort() });
  });
});
