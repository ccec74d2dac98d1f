import { describe, it } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { InMemoryMailbox, MailboxLoop, silentLog, StepLoop } from "../../mod.ts";
import { deferred } from "../../src/_promises.ts";
import { Board } from "../../src/coordination/mod.ts";
import { freePort } from "../engines/_servers.ts";
import { flaws, PageGroup, PageView } from "./_browser.ts";
import { browser, skip } from "./_chromium.ts";

const idle = (name: string) => new StepLoop(name, ({ sleep }) => sleep(60_000));

describe("the replicas on the live page", { skip }, () => {
  it("the live page shows all processes in one table, with links, and those that are away", async () => {
    const mailbox = new InMemoryMailbox<string>("orders");
    const go = deferred();
    const loop = new MailboxLoop({ mailbox, handler: () => go.promise, log: silentLog });
    await mailbox.send("tea");
    const second = await PageGroup.start([loop], {
      health: { name: "worker-2", version: "2.0.0" },
    });
    const away = `http://127.0.0.1:${await freePort()}/`;
    await using first = await PageGroup.start([idle("cleaner")], {
      health: { version: "1.9.0", replicas: () => [first.url, second.url, away] },
    });
    await using view = await PageView.at(browser, first.url);
    const { page } = view;
    await page.getByRole("link", { name: "Replicas 3, 1 unreachable" }).waitFor();
    await view.go("Replicas");
    const row = (name: string) => view.row(/^3 processes/, name);
    const cell = (name: string, label: string) =>
      row(name).locator(`[data-label="${label}"]`).innerText();
    assertMatch(await row("worker-1").innerText(), /this process, pid \d+\s+Running/);
    assertEquals(await cell("worker-1", "Version"), "1.9.0");
    assertMatch(await cell("worker-2", "State"), /^Running/);
    assertEquals(await cell("worker-2", "Loops ready"), "1/1");
    assertEquals(await cell("worker-2", "In flight"), "1");
    assertMatch(await cell("worker-2", "Uptime"), /^\d.* m?s$/);
    assertEquals(await cell("worker-2", "Version"), "2.0.0");
    const link = row("worker-2").getByRole("link");
    assertEquals(await link.getAttribute("href"), second.url);
    assertMatch(await cell(new URL(away).host, "State"), /^Unreachable\s+\S+/);
    await page.getByText(/^Together: 1 in flight, /).waitFor();
    assertEquals(await flaws(page), []);
    const stopped = second.group.shutdown({ timeoutMs: 60_000 });
    await row("worker-2").getByText(/^Draining, \d.* left$/).waitFor();
    go.resolve();
    await stopped;
    await second[Symbol.asyncDispose]();
    await row("worker-2").getByText("Unreachable").waitFor();
    await page.getByRole("link", { name: "Replicas 3, 2 unreachable" }).waitFor();
  });

  it("the live page shows the members of a board, and as replicas those with an address", async () => {
    const board = new Board({ log: silentLog });
    await using second = await PageGroup.start([idle("cook")], { health: { name: "worker-2" } });
    await board.setState("cook-2", "running", { healthUrl: second.url });
    await board.setState("waiter-1", "shutting_down", {}, { force: true });
    await using first = await PageGroup.start([idle("cleaner")], { health: { board } });
    await using view = await PageView.at(browser, `${first.url}#/replicas`);
    assertMatch(await view.row(/^Agents/, "waiter-1").innerText(), /shutting down\s+\d.* ago/);
    assertMatch(await view.row(/^2 processes/, "worker-2").innerText(), /Running\s+1\/1/);
    await board.close();
  });
});
