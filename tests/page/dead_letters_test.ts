/// <reference lib="dom" />

import { describe, it } from "node:test";
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Page } from "playwright-core";
import { InMemoryMailbox, MailboxLoop, silentLog } from "../../mod.ts";
import { PageGroup, PageView, TOKEN } from "./_browser.ts";
import { browser, skip } from "./_chromium.ts";

/** Stores dead letters `bad-1`, `bad-2`, … with two reasons, and starts a group whose loop handles none. */
async function start(count: number) {
  const mailbox = new InMemoryMailbox<string>("orders");
  for (let i = 1; i <= count; i++) {
    await mailbox.send(`dish ${i}`, { id: `bad-${i}`, headers: { till: `till-${i}` } });
    const [message] = await mailbox.receive();
    const reason = i % 5 === 0 ? "schema" : "max_deliveries";
    await message!.deadLetter({ reason, error: `no stove ${i} at stove://ada:secret@kitchen` });
  }
  await mailbox.pause(); // redriven messages wait
  const loop = new MailboxLoop({ name: "kitchen", mailbox, handler: () => {}, log: silentLog });
  return { mailbox, group: await PageGroup.start([loop], { health: { token: TOKEN } }) };
}

const rows = (page: Page) => {
  return page.getByRole("table", { name: "Dead letters of orders" }).getByRole("rowheader");
};

describe("the dead letters on the live page", { skip }, () => {
  it("the live page shows dead letters to all users, and their errors only with the token", async () => {
    const { group } = await start(30);
    await using served = group;
    await using view = await PageView.at(browser, served.url);
    const { page } = view;
    await view.go("Dead letters");
    await page.getByText("Unlock the controls to read, redrive and delete dead letters.").waitFor();
    const row = view.row(/^Dead letters of orders/, "bad-1");
    assertMatch(await row.first().innerText(), /max deliveries\s+1\s/);
    await page.getByText("and 10 more").waitFor();
    assert(!(await page.content()).includes("secret"));
    await view.unlock();
    await page.getByRole("button", { name: "bad-7" }).press("Enter");
    const text = (name: string) => page.getByRole("group", { name }).innerText();
    assertEquals(await text("Error"), "no stove 7 at stove://ada:secret@kitchen");
    assertEquals(await text("Body"), "dish 7");
    const fact = (name: string) => page.locator("td dt", { hasText: name }).locator("+ dd");
    assertEquals(await fact("till").innerText(), "till-7");
  });

  it("the live page pages and filters dead letters", async () => {
    const { group } = await start(120);
    await using served = group;
    await using view = await PageView.at(browser, `${served.url}#/dead-letters/orders`);
    const { page } = view;
    await view.unlock();
    const pages = page.getByRole("group", { name: "Pages" });
    await pages.getByText("1 to 50 of 120").waitFor();
    await pages.getByRole("button", { name: "Next" }).press("Enter");
    await pages.getByText("51 to 100 of 120").waitFor();
    await pages.getByRole("button", { name: "Next" }).press("Enter");
    await pages.getByText("101 to 120 of 120").waitFor();
    assertEquals(await rows(page).count(), 20);
    await page.getByLabel("Reason").selectOption("schema");
    await rows(page).filter({ hasText: /^bad-5$/ }).waitFor();
    assertEquals(await rows(page).count(), 24);
    const find = page.getByLabel("Find by id, key, headers or body");
    await find.fill("till-11");
    await find.press("Enter");
    await rows(page).filter({ hasText: /^bad-10$/ }).waitFor({ state: "detached" });
    await rows(page).filter({ hasText: /^bad-115$/ }).waitFor();
    assertEquals(await rows(page).allInnerTexts(), ["bad-110", "bad-115"]);
  });

  it("the live page redrives and deletes selected dead letters, and all that match", async () => {
    const { mailbox, group } = await start(130);
    await using served = group;
    await using view = await PageView.at(browser, served.url);
    const { page } = view;
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    await view.row(/^Mailboxes/, "orders").getByRole("link", { name: "130" }).press("Enter");
    await view.unlock();
    for (const i of [2, 3]) await page.getByLabel(`Select bad-${i}`, { exact: true }).check();
    await button("Redrive (2)").press("Enter");
    await view.confirm("Redrive 2 dead letters of orders?", "Redrive");
    await view.result("2 dead letters redriven.");
    await page.getByLabel("Select bad-2", { exact: true }).waitFor({ state: "detached" });
    assertEquals((await mailbox.peek(10)).map(({ id }) => id).sort(), ["bad-2", "bad-3"]);

    await page.getByLabel("Select bad-4", { exact: true }).check();
    await button("Delete (1)").press("Enter");
    await view.confirm("Delete 1 dead letter of orders?", "Delete");
    await view.result("1 dead letter deleted.");
    assertEquals(await mailbox.deadLetters.approximateCount(), 127);

    await page.getByLabel("Reason").selectOption("schema");
    await button("Delete all that match").press("Enter");
    await view.confirm("Delete all dead letters of orders that match?", "Delete");
    await view.result("26 dead letters deleted.");
    await page.getByText("No dead letters match.").waitFor();
    assertEquals(await mailbox.deadLetters.approximateCount(), 101);

    await page.getByLabel("Reason").selectOption("max_deliveries");
    await rows(page).filter({ hasText: /^bad-6$/ }).waitFor();
    await page.getByLabel("Find by id, key, headers or body").fill("bad-1");
    await page.keyboard.press("Enter");
    await rows(page).filter({ hasText: /^bad-6$/ }).waitFor({ state: "detached" });
    await rows(page).filter({ hasText: /^bad-1$/ }).waitFor();
    await button("Redrive all that match").press("Enter");
    await view.confirm("Redrive all dead letters of orders that match?", "Redrive");
    await view.result("33 dead letters redriven.");

    await page.goto(`${served.url}#/dead-letters/orders`);
    await page.getByText("1 to 50 of 68").waitFor();
    await button("Redrive all").press("Enter");
    await view.confirm("Redrive all 68 dead letters of orders?", "Redrive");
    await view.result("68 dead letters redriven.");
    await page.getByText("No dead letters.").waitFor();
    assertEquals(await mailbox.approximateCount(), 2 + 33 + 68);
  });

  it("the live page deletes all dead letters in several requests", async () => {
    const { mailbox, group } = await start(230);
    await using served = group;
    await using view = await PageView.at(browser, `${served.url}#/dead-letters/orders`);
    const { page } = view;
    await view.unlock();
    await page.getByRole("button", { name: "Delete all" }).press("Enter");
    await view.confirm("Delete all 230 dead letters of orders?", "Delete");
    await view.result("230 dead letters deleted.");
    assertEquals(await mailbox.deadLetters.approximateCount(), 0);
  });
});
