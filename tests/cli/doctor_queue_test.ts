import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { openMailbox, silentLog } from "../../mod.ts";
import { checkCrash, checkQueue } from "../../cli/doctor/engine_check.ts";
import { parseMailboxUrl } from "../../src/engines/_kit/mailbox_url.ts";
import { engineOfScheme } from "../../src/engines/registry.ts";
import type { MailboxStats } from "../../src/mailbox/mailbox.ts";
import * as nats from "../engines/nats/_nats.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { lastcall } from "./_io.ts";

/** Returns the finding of one check. */
async function find(check: string, ...args: readonly string[]) {
  const { json } = await lastcall(["doctor", "--json", ...args]);
  return json.find((it) => it.check === check);
}

describe("doctor: crash", () => {
  const crash = (ownerDetection: boolean, needs?: string, visibilityTimeoutMs = 300_000) =>
    checkCrash({ ownerDetection }, needs, { visibilityTimeoutMs });

  it("doctor tells that dead workers are noticed", () => {
    assertEquals(crash(true), {
      ...{ check: "crash", level: "ok", found: "dead workers: noticed within seconds" },
    });
  });

  it("doctor tells what an engine needs to notice them, whatever it answers before a receive", () => {
    for (const answer of [true, false]) {
      const { level, found } = crash(answer, "no pooler");
      assertEquals(level, "ok");
      assertMatch(found, /noticed within seconds with no pooler, otherwise by the .* of 5 min; /);
    }
  });

  it("doctor knows what engines need, and that they do not notice dead workers in a cluster", () => {
    const needs = (url: string) => {
      const parsed = parseMailboxUrl(url);
      return engineOfScheme(parsed.scheme)?.ownerDetection?.(parsed);
    };
    assertMatch(needs("redis://host") ?? "", /no cluster/);
    assertMatch(needs("postgres://host/shop") ?? "", /without a pooler/);
    assertMatch(needs("sqlite:./jobs.db") ?? "", /locks files/);
    for (
      const url of ["redis+cluster://host", "rediss+cluster://host", "nats://host", "sqs:orders"]
    ) {
      assertEquals(needs(url), undefined, url);
    }
  });

  it("doctor warns about an engine that cannot notice them, unless the visibility timeout is short", () => {
    const { level, why, change } = crash(false);
    assertEquals([level, change], ["warning", "--visibility-timeout 60s, with lease extension"]);
    assertMatch(why ?? "", /delivered again only after that time/);
    assertEquals([crash(false, undefined, 60_001).level, crash(false, undefined, 60_000).level], [
      ...["warning", "ok"],
    ]);
  });
});

describe("doctor: queue", () => {
  const found = (stats: Partial<MailboxStats>) => checkQueue({ waiting: 0, ...stats })[0]?.found;

  it("doctor tells that a queue is paused or limited", () => {
    assertEquals(found({ paused: false }), undefined);
    const rateLimit = { max: 100, perMs: 1_000 };
    const end = ", for all processes: see lastcall resume and limit";
    assertEquals(found({ paused: true }), `paused until it is resumed${end}`);
    assertEquals(found({ paused: false, rateLimit }), `limited to 100/s${end}`);
    assertEquals(
      found({ paused: true, pausedForMs: 30_000, rateLimit }),
      `paused for another 30 s, and limited to 100/s${end}`,
    );
  });
});

describe("lastcall doctor --mailbox on a queue", () => {
  it("lastcall doctor --mailbox reports when a crashed worker is noticed, and receives nothing", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await using mailbox = await openMailbox(url, { log: silentLog });
    await mailbox.send("tea", { id: "tea" });
    const { level, found } = await find("crash", "--mailbox", url);
    assertEquals(level, "ok");
    assertStringIncludes(found, "dead workers: noticed within seconds");
    assertEquals((await mailbox.get("tea"))?.deliveryCount, 0);
  });

  it(
    "lastcall doctor --mailbox warns that NATS does not notice a crashed worker",
    nats.gate,
    async () => {
      const queue = nats.uniqueName();
      try {
        const args = ["--mailbox", `${nats.url}?queue=${queue}`];
        const finding = await find("crash", ...args);
        assertEquals([finding.level, finding.change], [
          "warning",
          "--visibility-timeout 60s, with lease extension",
        ]);
        assertStringIncludes(finding.found, "only by the visibility timeout of 5 min");
        const changed = await find("crash", ...args, "--visibility-timeout", "60s");
        assertEquals(changed.level, "ok");
      } finally {
        await nats.cleanUp(queue);
      }
    },
  );

  it("lastcall doctor --mailbox reports a paused queue, and is satisfied", async () => {
    using folder = new TempFolder();
    const url = `sqlite:${folder.file()}`;
    await using mailbox = await openMailbox(url, { log: silentLog });
    await mailbox.send("tea");
    assertEquals(await find("queue", "--mailbox", url), undefined);
    await mailbox.pause();
    const { code, out } = await lastcall(["doctor", "--mailbox", url]);
    assertEquals(code, 0);
    assertMatch(out, /\nok +queue +paused until it is resumed, for all processes/);
  });
});
