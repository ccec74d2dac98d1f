import { describe, it } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { MailboxLoop, silentLog } from "../../mod.ts";
import { FaultyMailbox } from "../../src/testing/mod.ts";
import { flaws, PageGroup, PageView, SampleClock } from "./_browser.ts";
import { browser, skip } from "./_chromium.ts";

describe("the last hour on the live page", { skip }, () => {
  it("the live page draws rate and depth of the last hour, also after a reload", async () => {
    const mailbox = new FaultyMailbox<number>("orders");
    const handler = () => {};
    const loop = new MailboxLoop({ mailbox, concurrency: 100, handler, log: silentLog });
    const clock = new SampleClock();
    await using served = await PageGroup.start([loop], { health: { clock } });
    const acknowledge = async (messages: number) => {
      const before = loop.counts.acknowledged;
      await mailbox.sendMany(Array.from({ length: messages }, (_, i) => i));
      while (loop.counts.acknowledged < before + messages) await clock.sleep(1);
    };
    for (let sample = 0; sample < 100; sample++) await clock.sample(served.url);
    await acknowledge(300);
    await clock.sample(served.url);
    await mailbox.pause();
    await mailbox.sendMany(Array.from({ length: 40 }, (_, i) => i));
    for (let sample = 0; sample < 20; sample++) await clock.sample(served.url);
    mailbox.loseConnection();
    for (let sample = 0; sample < 40; sample++) await clock.sample(served.url);
    mailbox.restoreConnection();
    for (let sample = 0; sample < 78; sample++) await clock.sample(served.url);

    await using view = await PageView.at(browser, served.url);
    const { page } = view;
    const rate = page.getByRole("img", { name: /^Acknowledged per second over the last hour/ });
    const depth = page.getByRole("img", { name: /^Waiting over the last hour: 40 now/ });
    for (const visit of ["first", "second"]) {
      // 300 messages in 15 s.
      assertMatch(await rate.getAttribute("aria-label") ?? "", /at most (20|19\.9) at \d/, visit);
      assertMatch(
        await depth.getAttribute("aria-label") ?? "",
        /at most 40 at .*In flight .*: 0 now/,
      );
      const lines = await depth.locator(".line-0").getAttribute("d") ?? "";
      assertEquals(lines.match(/M/g)?.length, 2, "a gap while the engine was away");
      await view.row(/^Mailboxes/, "orders")
        .getByRole("img", { name: "Waiting over the last hour: at most 40" }).waitFor();
      await page.reload();
    }
    await page.getByText("Figures").press("Enter");
    const figures = page.getByRole("table", { name: /^The highest value of every five minutes/ });
    assertEquals(await figures.getByRole("row").count(), 13);
    const values = await figures.locator('[data-label="Waiting"]').allInnerTexts();
    assertEquals(values, ["40", "40", "40", "40", "–", "40", "40", "0", "0", "0", "0", "0"]);
    const { x, y, width, height } = (await depth.boundingBox())!;
    await page.mouse.move(x + width * 0.1, y + height / 2);
    await page.locator("figure", { has: depth }).getByText("Waiting 0").waitFor();
    assertEquals(await flaws(page), []);
  });
});
