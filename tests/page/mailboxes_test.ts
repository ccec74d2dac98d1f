import { describe, it } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { InMemoryMailbox, MailboxLoop, openMailbox, silentLog, StepLoop } from "../../mod.ts";
import { deferred } from "../../src/_promises.ts";
import { FaultyMailbox } from "../../src/testing/mod.ts";
import { hasBinary, missing, PrivateServer, redis } from "../engines/_servers.ts";
import { flaws, PageGroup, PageView, TOKEN } from "./_browser.ts";
import { browser, skip } from "./_chromium.ts";

describe("the mailboxes on the live page", { skip }, () => {
  it("the live page shows the messages of a mailbox by state, and whether it is paused", async () => {
    const mailbox = new InMemoryMailbox<string>("orders");
    const go = deferred();
    const loop = new MailboxLoop({ mailbox, handler: () => go.promise, log: silentLog });
    await mailbox.sendMany(["tea", "cake", "soup"]);
    await mailbox.send("pie", { delayMs: 3_600_000 });
    await using served = await PageGroup.start([loop]);
    {
      await using view = await PageView.at(browser, served.url);
      const row = view.row(/^Mailboxes/, "orders");
      const cell = (label: string) => row.locator(`[data-label="${label}"]`).innerText();
      assertEquals(await row.getByText("paused").count(), 0);
      await mailbox.pause();
      await row.getByText("paused", { exact: true }).waitFor();
      const counts = ["Waiting", "Delayed", "In flight", "Dead letters"].map(cell);
      assertEquals(await Promise.all(counts), ["2", "1", "1", "0"]);
      assertMatch(await cell("Oldest waiting"), /^\d.* m?s$/);
      assertEquals(await flaws(view.page), []);
      await mailbox.resume();
      await row.getByText("paused").waitFor({ state: "detached" });
    }
    go.resolve();
  });

  it("the live page shows how long a mailbox is paused, its limit, and that dead workers are noticed", async () => {
    const mailbox = new InMemoryMailbox<string>("orders");
    const loop = new MailboxLoop({ mailbox, handler: () => {}, log: silentLog });
    await using served = await PageGroup.start([loop]);
    await using view = await PageView.at(browser, served.url);
    const row = view.row(/^Mailboxes/, "orders");
    assertEquals(await row.getByText(/at most|notices/).count(), 0);
    await mailbox.pause({ forMs: 3_600_000 });
    await mailbox.rateLimit({ max: 1_200, perMs: 60_000 });
    const capabilities = { ...mailbox.capabilities, ownerDetection: true };
    Object.defineProperty(mailbox, "capabilities", { value: capabilities });
    await row.getByText(/^paused, (59 min \d+ s|1 h 0 min) left$/).waitFor();
    await row.getByText("at most 1\u202f200 per minute", { exact: true }).waitFor();
    await row.getByText("notices dead workers", { exact: true }).waitFor();
    assertEquals(await flaws(view.page), []);
    await mailbox.rateLimit({ max: 10, perMs: 500 });
    await row.getByText("at most 10 per 500 ms", { exact: true }).waitFor();
    await mailbox.rateLimit(false);
    await row.getByText("at most").waitFor({ state: "detached" });
  });

  it("the live page shows 50 of 300 mailboxes, and finds the others by name", async () => {
    const mailboxes = Array.from({ length: 300 }, (_, i) => {
      return new InMemoryMailbox<string>(`queue-${i}`);
    });
    await mailboxes[288]!.send("tea", { id: "tea" });
    const idle = new StepLoop("cleaner", ({ sleep }) => sleep(60_000));
    await using served = await PageGroup.start([idle], { health: { token: TOKEN, mailboxes } });
    await using view = await PageView.at(browser, served.url);
    const { page } = view;
    const names = page.getByRole("table", { name: /^Mailboxes/ }).getByRole("rowheader");
    await page.getByText("and 250 more mailboxes").waitFor();
    assertEquals(await names.count(), 50);
    await page.getByLabel("Name of the mailbox").fill("QUEUE-29");
    await page.getByText("11 mailboxes found").waitFor();
    assertEquals(await names.count(), 11);
    await page.getByLabel("Name of the mailbox").fill("none");
    await page.getByText("No mailboxes match.").waitFor();
    await view.unlock();
    await view.go("Messages");
    await page.getByLabel("Mailbox").selectOption("queue-288");
    await page.getByRole("table", { name: "Messages of queue-288" }).getByText("tea").waitFor();
  });

  it("the live page shows when an engine is unreachable, and when it is back", async () => {
    const mailbox = new FaultyMailbox<string>("orders");
    const loop = new MailboxLoop({ mailbox, handler: () => {}, log: silentLog });
    await using served = await PageGroup.start([loop]);
    await using view = await PageView.at(browser, served.url);
    const row = view.row(/^Mailboxes/, "orders");
    await row.getByText("reachable", { exact: true }).waitFor();
    await row.getByText("memory").waitFor();
    mailbox.loseConnection();
    await row.getByText("unreachable", { exact: true }).waitFor();
    await row.getByText("memory").waitFor();
    await row.getByText("The connection is lost: no answer to stats").waitFor();
    await view.page.getByText("1 unreachable").waitFor();
    mailbox.restoreConnection();
    await row.getByText("reachable", { exact: true }).waitFor();
  });

  it("the live page shows the error of a Redis that is away, and goes on when it is back", {
    skip: hasBinary(redis) ? false : missing(redis),
  }, async () => {
    await using server = await PrivateServer.start(redis);
    await using mailbox = await openMailbox<string>(`${server.url}?queue=page`, { log: silentLog });
    const loop = new MailboxLoop({ name: "kitchen", mailbox, handler: () => {}, log: silentLog });
    await mailbox.send("pie", { delayMs: 3_600_000 });
    await using served = await PageGroup.start([loop], { health: { token: TOKEN } });
    await using view = await PageView.at(browser, served.url, { expected: /503/ });
    const { page } = view;
    const row = view.row(/^Mailboxes/, "page");
    await row.getByText("Redis").waitFor();
    assertEquals(await row.locator('[data-label="Delayed"]').innerText(), "1");
    await server.kill();
    await row.getByText("unreachable", { exact: true }).waitFor();
    await row.locator(".error", { hasText: "Redis" }).waitFor();
    assertMatch(await row.getAttribute("class") ?? "", /away/);
    await page.getByRole("region", { name: "Totals" }).getByText("1 unreachable").waitFor();
    assertEquals(await flaws(page), []);
    await view.go("Messages");
    await view.unlock();
    await page.getByText(/^Cannot read page: /).waitFor();
    await server.start();
    await view.go("Overview");
    await row.getByText("reachable", { exact: true }).waitFor();
    await row.locator('[data-label="Delayed"] a').press("Enter");
    await page.getByRole("table", { name: "Messages of page" }).getByText("delayed").waitFor();
  });
});
