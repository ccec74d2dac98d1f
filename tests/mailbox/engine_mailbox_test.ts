import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { skippedMailboxCases } from "../../src/testing/mod.ts";
import { hostMailboxCases, onSharedEngine } from "./_hosts.ts";
import { RemoteEngine } from "./_remote_engine.ts";

describe("EngineMailbox, with bodies as JSON and storage that several share", () => {
  const make = onSharedEngine((engine) => engine);
  hostMailboxCases(make);
  it("shows every case", async () => assertEquals(await skippedMailboxCases(make), []));
});

describe("EngineMailbox, on an engine that takes its time", () => {
  hostMailboxCases(onSharedEngine((engine) => new RemoteEngine(engine)));
});
