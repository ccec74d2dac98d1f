/// <reference lib="dom" />

import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { InMemoryMailbox, MailboxLoop, silentLog, StepLoop } from "../../mod.ts";
import { Board } from "../../src/coordination/mod.ts";
import { flaws, PageGroup, PageView, SampleClock, TOKEN } from "./_browser.ts";
import { browser, skip } from "./_chromium.ts";

const LONG = "a-rather-long-id-of-a-message-that-failed-0001";

describe("every view of the live page", { skip }, () => {
  it("every view is accessible in light and dark mode, from 320 to 1,920 pixels", async () => {
    const mailbox = new InMemoryMailbox<string>("orders");
    const board = new Board({ log: silentLog });
    await board.setState("waiter-1", "running");
    await mailbox.send("x".repeat(12_000), { id: LONG, headers: { till: LONG.repeat(4) } });
    const [message] = await mailbox.receive();
    await message!.deadLetter({ reason: "max_deliveries", error: "no stove ".repeat(40) });
    await mailbox.send("tea", { id: `${LONG}-2`, delayMs: 3_600_000, headers: { till: LONG } });
    await mailbox.sendMany(Array.from({ length: 60 }, (_, i) => `${i}`), { delayMs: 3_600_000 });
    const clock = new SampleClock();
    const loops = [
      new MailboxLoop({ name: LONG, mailbox, handler: () => {}, log: silentLog }),
      ...Array.from(
        { length: 11 },
        (_, i) => new StepLoop(`cleaner-${i}`, ({ sleep }) => sleep(60_000)),
      ),
    ];
    await using served = await PageGroup.start(loops, {
      health: {
        ...{ token: TOKEN, board, clock, name: LONG, version: LONG },
        replicas: ["http://127.0.0.1:1/"],
      },
    });
    for (let sample = 0; sample < 3; sample++) await clock.sample(served.url);
    const viewport = { width: 320, height: 640 };
    await using view = await PageView.at(browser, served.url, { viewport });
    const { page } = view;
    const check = async (name: string) => {
      for (const width of [320, 740, 1_024, 1_920]) {
        await page.setViewportSize({ width, height: 800 });
        const used = await page.evaluate(() => document.documentElement.scrollWidth);
        assertEquals(used, width, `${name} is as wide as the screen`);
      }
      assertEquals(await flaws(page), [], `${name}, wide`);
      await page.setViewportSize(viewport);
      assertEquals(await flaws(page), [], `${name}, narrow`);
    };
    await page.getByText("Figures").press("Enter");
    await check("overview");
    await view.go("Messages");
    await check("messages, locked");
    await view.unlock();
    await page.getByRole("button", { name: `${LONG}-2` }).press("Enter");
    await page.getByRole("group", { name: "Body" }).waitFor();
    await check("messages");
    await page.getByLabel(`Select ${LONG}-2`).check();
    await page.getByRole("button", { name: "Delete (1)" }).press("Enter");
    await page.getByRole("dialog").waitFor();
    assertEquals(await flaws(page), [], "dialog");
    await page.keyboard.press("Escape");
    await view.go("Dead letters");
    await page.getByRole("button", { name: LONG }).press("Enter");
    await page.getByRole("group", { name: "Error" }).waitFor();
    await check("dead letters");
    await view.go("Replicas");
    await check("replicas");
    await board.close();
  });

  it("the live page opens a view by its address, and goes back to the view before", async () => {
    const mailbox = new InMemoryMailbox<string>("orders/1:a@b");
    await mailbox.send("tea", { id: "tea", delayMs: 3_600_000 });
    const loop = new MailboxLoop({ name: "kitchen", mailbox, handler: () => {}, log: silentLog });
    const first = new InMemoryMailbox<string>("first"); // the one without an address
    const loops = [
      new MailboxLoop({ mailbox: first, handler: () => {}, log: silentLog }),
      loop,
    ];
    await using served = await PageGroup.start(loops, { health: { token: TOKEN } });
    await using view = await PageView.at(browser, served.url);
    const { page } = view;
    await view.unlock();
    await view.row(/^Mailboxes/, "orders").locator('[data-label="Delayed"] a').press("Enter");
    await page.getByRole("table", { name: "Messages of orders/1:a@b" }).getByText("delayed")
      .waitFor();
    await view.go("Replicas");
    await page.goBack();
    await page.getByRole("table", { name: "Messages of orders/1:a@b" }).getByText("delayed")
      .waitFor();
    assertEquals(await page.getByLabel("State").inputValue(), "delayed");
  });
});
