/// <reference lib="dom" />

import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import type { Locator, Page } from "playwright-core";
import { InMemoryMailbox, MailboxLoop, silentLog } from "../../mod.ts";
import { deferred } from "../../src/_promises.ts";
import { eventSize, PageGroup, PageView, TOKEN } from "./_browser.ts";
import { browser, skip } from "./_chromium.ts";

interface Order {
  readonly dish: string;
}

/** Starts a group with one message in flight; the others wait. `handled` lists the ids of finished ones. */
async function start(mailbox: InMemoryMailbox<Order>) {
  const [go, started] = [deferred(), deferred()];
  const [handled, cancelled]: [string[], string[]] = [[], []];
  const loop = new MailboxLoop<Order>({
    name: "kitchen",
    mailbox,
    concurrency: 1,
    handler: async ({ id }, { signal }) => {
      started.resolve();
      signal.addEventListener("abort", () => cancelled.push(id));
      await Promise.race([
        go.promise,
        new Promise((resolve) => signal.addEventListener("abort", resolve)),
      ]);
      signal.throwIfAborted();
      handled.push(id);
    },
    log: silentLog,
  });
  const group = await PageGroup.start([loop], { health: { token: TOKEN } });
  await started.promise;
  return { group, go, handled, cancelled };
}

const table = (page: Page): Locator => page.getByRole("table", { name: "Messages of orders" });
const ids = async (page: Page) => await table(page).getByRole("rowheader").allInnerTexts();

describe("the messages on the live page", { skip }, () => {
  it("the live page lists messages by page, by state and by text, and an address leads to a list", async () => {
    const mailbox = new InMemoryMailbox<Order>("orders");
    for (let i = 1; i <= 120; i++) await mailbox.send({ dish: "tea" }, { id: `m-${i}` });
    await mailbox.send({ dish: "cake" }, {
      id: "d-1",
      delayMs: 3_600_000,
      headers: { till: "nine" },
    });
    await mailbox.send({ dish: "soup" }, { id: "d-2", delayMs: 3_600_000, key: "table-4" });
    const { group, go } = await start(mailbox);
    await using served = group;
    {
      await using view = await PageView.at(browser, served.url, { expected: /404/ });
      const { page } = view;
      await view.go("Messages");
      await page.getByText("Unlock the controls to read messages.").waitFor();
      assertEquals(await table(page).count(), 0);
      await view.unlock();
      const pages = page.getByRole("group", { name: "Pages" });
      await pages.getByText("1 to 50 of 122").waitFor();
      assertEquals((await ids(page)).length, 50);
      await pages.getByRole("button", { name: "Next" }).press("Enter");
      await pages.getByText("51 to 100 of 122").waitFor();
      await pages.getByRole("button", { name: "Next" }).press("Enter");
      await pages.getByText("101 to 122 of 122").waitFor();
      assertEquals((await ids(page)).length, 22);
      assert(await pages.getByRole("button", { name: "Next" }).isDisabled());
      await pages.getByRole("button", { name: "Previous" }).press("Enter");
      await pages.getByText("51 to 100 of 122").waitFor();

      await page.getByLabel("State").selectOption("delayed");
      await table(page).getByRole("button", { name: "d-2" }).waitFor();
      assertEquals(await ids(page), ["d-1", "d-2"]);
      assertEquals(new URL(page.url()).hash, "#/messages/orders?state=delayed");
      await page.reload(); // this tab still has the token
      await table(page).getByRole("button", { name: "d-2" }).waitFor();
      assertEquals(await ids(page), ["d-1", "d-2"]);
      await page.getByLabel("State").selectOption("inFlight");
      await table(page).getByRole("button", { name: "m-1", exact: true }).waitFor();
      assertEquals(await ids(page), ["m-1"]);

      await page.getByLabel("State").selectOption("");
      const find = page.getByLabel("Find by id, key, headers or body");
      const searches = { NINE: "d-1", "table-4": "d-2", soup: "d-2", "m-77": "m-77" };
      for (const [text, id] of Object.entries(searches)) {
        await find.fill(text);
        await find.press("Enter");
        await page.waitForURL(`**/*find=${text}`);
        await table(page).getByRole("button", { name: id, exact: true }).waitFor();
        await page.locator('[aria-busy="false"]').waitFor();
        assertEquals(await ids(page), [id], text);
      }
      await find.fill("no such text");
      await find.press("Enter");
      await page.getByText("No messages match.").waitFor();
      await page.goto(`${served.url}#/messages/orders?state=delayed&find=soup`);
      await table(page).getByRole("button", { name: "d-2" }).waitFor();
      assertEquals(await ids(page), ["d-2"]);
    }
    go.resolve();
  });

  it("the live page shows the body and the headers of a message, and cuts a long body", async () => {
    const mailbox = new InMemoryMailbox<Order>("orders");
    await mailbox.send({ dish: "tea <b>" }, { id: "first" });
    const options = {
      id: "second",
      headers: { "x-till": "till <i>" },
      key: "table-4",
      priority: 3,
    };
    await mailbox.send({ dish: "cake <script>" }, options);
    await mailbox.send({ dish: "x".repeat(20_000) }, { id: "long" });
    const { group, go } = await start(mailbox);
    await using served = group;
    {
      await using view = await PageView.at(browser, `${served.url}#/messages/orders`);
      const { page } = view;
      await view.unlock();
      assert(!(await page.content()).includes("cake"), "details are closed at first");
      await table(page).getByRole("button", { name: "second", expanded: false }).press("Enter");
      const body = page.getByRole("group", { name: "Body" });
      assertEquals(await body.innerText(), '{\n  "dish": "cake <script>"\n}');
      const fact = (name: string) => page.locator("td dt", { hasText: name }).locator("+ dd");
      assertEquals(await fact("x-till").innerText(), "till <i>");
      assertEquals(await fact("Key").innerText(), "table-4");
      assertEquals(await fact("Priority").innerText(), "3");
      await table(page).getByRole("button", { name: "second", expanded: true }).press("Enter");
      await table(page).getByRole("button", { name: "long" }).press("Enter");
      await page.getByText("Body: the first 10\u202f000 of 20\u202f011 characters").waitFor();
      assertEquals((await body.innerText()).length, 10_000);
    }
    go.resolve();
  });

  it("the live page retries, cancels and deletes messages after a confirmation", async () => {
    const mailbox = new InMemoryMailbox<Order>("orders");
    for (const id of ["running", "w-1", "w-2", "w-3"]) await mailbox.send({ dish: "tea" }, { id });
    for (const id of ["d-1", "d-2"]) {
      await mailbox.send({ dish: "cake" }, { id, delayMs: 3_600_000 });
    }
    const { group, go, handled, cancelled } = await start(mailbox);
    await using served = group;
    {
      await using view = await PageView.at(browser, `${served.url}#/messages/orders`);
      const { page } = view;
      await view.unlock();
      const button = (name: string) => page.locator(".toolbar").getByRole("button", { name });
      const select = (id: string) => page.getByLabel(`Select ${id}`, { exact: true }).check();
      await select("w-1");
      await select("w-2");
      assert(await button("Retry now").isDisabled(), "only delayed messages can be retried");
      assert(await button("Cancel").isDisabled(), "only messages in flight can be cancelled");
      await button("Delete (2)").press("Enter");
      await view.confirm("Delete 2 messages of orders?", "Back");
      assertEquals(await mailbox.approximateCount(), 6);
      await button("Delete (2)").press("Enter");
      await view.confirm("Delete 2 messages of orders?", "Delete");
      await view.result("2 messages deleted.");
      await page.getByLabel("Select w-1").waitFor({ state: "detached" });
      assertEquals(await ids(page), ["running", "w-3", "d-1", "d-2"]);

      await select("d-1");
      await button("Retry now (1)").press("Enter");
      await view.confirm("Retry 1 message of orders now?", "Retry now");
      await view.result("1 message visible now.");
      await table(page).getByRole("row", { name: "d-1" }).getByText("waiting").waitFor();

      await table(page).getByRole("button", { name: "running" }).press("Enter");
      await table(page).getByRole("button", { name: "Cancel" }).press("Enter");
      await view.confirm("Cancel 1 message of orders?", "Cancel");
      await view.result("1 message cancelled.");
      assertEquals([handled, cancelled], [[], ["running"]]);

      await page.getByLabel("Select w-3").waitFor(); // the list shows it, and then its process handles it
      await select("d-2");
      await mailbox.cancel("d-2");
      await button("Delete (1)").press("Enter");
      await view.confirm("Delete 1 message of orders?", "Delete");
      await view.result("0 messages deleted. 1 no longer there or in another state.");
    }
    go.resolve();
  });

  it("the live page pages and searches 100,000 messages, and its events stay small", async () => {
    const mailbox = new InMemoryMailbox<Order>("orders");
    for (let from = 0; from < 100_000; from += 1_000) {
      const orders = Array.from({ length: 1_000 }, (_, i) => ({ dish: `dish ${from + i};` }));
      await mailbox.sendMany(orders, ({ dish }) => ({ id: dish.replace(";", "") }));
    }
    const { group, go } = await start(mailbox);
    await using served = group;
    {
      await using view = await PageView.at(browser, served.url, { expected: /404/ });
      const { page } = view;
      await view.row(/^Mailboxes/, "orders").getByRole("link", { name: "99\u202f999" }).press(
        "Enter",
      );
      await view.unlock();
      await page.getByLabel("State").selectOption("");
      const pages = page.getByRole("group", { name: "Pages" });
      await pages.getByText("1 to 50 of 100\u202f000").waitFor();
      await pages.getByRole("button", { name: "Next" }).press("Enter");
      await pages.getByText("51 to 100 of 100\u202f000").waitFor();
      const find = page.getByLabel("Find by id, key, headers or body");
      const lists: string[] = [];
      page.on(
        "request",
        (request) => /messages\?/.test(request.url()) && lists.push(request.url()),
      );
      for (const [text, most] of [["dish 99999", 0], ["dish 25432;", 30]] as const) {
        lists.length = 0;
        await find.fill(text);
        await find.press("Enter");
        await table(page).getByRole("button", { name: text.replace(";", "") }).waitFor();
        assertEquals((await ids(page)).length, 1, text);
        assert(
          lists.length <= most,
          `${lists.length} requests: an id is looked up, a text is searched`,
        );
      }
      assert(await eventSize(served.url) < 10_000);
    }
    go.resolve();
  });
});
