// What was seen to go wrong elsewhere, and must not here.

import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type BusMessage, shutdownWithCoordination } from "../../src/coordination/mod.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { enrolRecorder, makeWorld, sendTasks } from "./_world.ts";

describe("faults of others", () => {
  it("one malformed message among thirteen stops nobody and is not deleted", async () => {
    await using world = await makeWorld();
    const { bus, sender } = world;
    const { agent, worked } = await enrolRecorder(bus, "worker-1");
    await sendTasks(bus, sender, "worker-1", 6);
    await agent.inbox.send("{ not a message" as unknown as BusMessage);
    await sendTasks(bus, sender, "worker-1", 6);
    const report = await shutdownWithCoordination(agent);
    assertEquals([worked.length, report.failed, report.complete], [12, 1, true]);
    const [letter] = await agent.inbox.deadLetters!.receive();
    assertEquals([letter?.body.reason, letter?.body.body as unknown], [
      "malformed",
      "{ not a message",
    ]);
  });

  it("a handler that throws sends its message to the dead letters, and the others go on", async () => {
    await using world = await makeWorld();
    const { agent, worked } = await enrolRecorder(world.bus, "worker-1", {
      handlers: {
        task({ payload }) {
          if ((payload as { id: number }).id === 2) throw new Error("bad luck");
          worked.push(payload);
        },
      },
    });
    await sendTasks(world.bus, world.sender, "worker-1", 4);
    const report = await shutdownWithCoordination(agent);
    assertEquals([worked.length, report.processed, report.failed], [3, 3, 1]);
    const [letter] = await agent.inbox.deadLetters!.receive();
    assertEquals(letter?.body.error, "Error: bad luck");
  });

  it("messages of unknown types are archived, with the dead letters or where it is said", async () => {
    await using world = await makeWorld();
    const { bus, sender } = world;
    const archive = new InMemoryMailbox<BusMessage>("archive");
    const one = await enrolRecorder(bus, "one");
    const two = await enrolRecorder(bus, "two", { archive });
    for (const to of ["one", "two"]) {
      await bus.send(sender, to, "toString", { what: to });
      await bus.send(sender, to, "task", {});
    }
    const reports = [
      await shutdownWithCoordination(one.agent),
      await shutdownWithCoordination(two.agent),
    ];
    assertEquals(reports.map((it) => [it.complete, it.processed, it.archived]), [
      [true, 1, 1],
      [true, 1, 1],
    ]);
    const [letter] = await one.agent.inbox.deadLetters!.receive();
    assertEquals(letter?.body.reason, "unknown_type");
    const [kept] = await archive.receive();
    assertEquals(kept?.body.payload, { what: "two" });
  });

  it("99 notifications displace none of 40 work messages in an inbox for 100", async () => {
    const inbox = new InMemoryMailbox<BusMessage>("worker-1", { maxSize: 100 });
    await using world = await makeWorld();
    const { bus, sender, board } = world;
    const { agent, worked, told } = await enrolRecorder(bus, "worker-1", { inbox });
    await sendTasks(bus, sender, "worker-1", 40);
    const others = await bus.enrolAll(
      Array.from({ length: 99 }, (_, i) => ({ id: `other-${i}` })),
    );
    for (const other of others) await shutdownWithCoordination(other);
    await board.synced();
    assertEquals(told.length, 99);
    assertEquals(new Set(told.map(({ msg_id }) => msg_id)).size, 99);
    assertEquals(await inbox.approximateCount(), 40);
    assertEquals((await shutdownWithCoordination(agent)).processed, 40);
    assertEquals(worked.length, 40);
  });

  it("a full inbox pushes back, and nothing is evicted", async () => {
    const inbox = new InMemoryMailbox<BusMessage>("worker-1", { maxSize: 3 });
    await using world = await makeWorld();
    const { agent, worked } = await enrolRecorder(world.bus, "worker-1", { inbox });
    await sendTasks(world.bus, world.sender, "worker-1", 3);
    await assertRejects(
      () => world.bus.send(world.sender, "worker-1", "task", {}),
      Error,
      "is full",
    );
    await shutdownWithCoordination(agent);
    assertEquals(worked, [{ id: 1 }, { id: 2 }, { id: 3 }]);
  });

  it("1,000 parallel sends have 1,000 ids, and numbers without gaps for each pair", async () => {
    await using world = await makeWorld();
    const { bus, sender } = world;
    const receivers = [await enrolRecorder(bus, "one"), await enrolRecorder(bus, "two")];
    const results = await Promise.all(Array.from({ length: 1_000 }, (_, i) => {
      return bus.send(sender, i % 2 ? "one" : "two", "task", {});
    }));
    const ids = results.map((it) => it.outcome === "accepted" ? it.messageId : "");
    assertEquals(new Set(ids).size, 1_000);
    for (const { agent } of receivers) {
      const messages = await agent.inbox.receive({ maxMessages: 1_000 });
      const sequences = messages.map(({ body }) => body.sequence).sort((a, b) => a - b);
      assertEquals(sequences, Array.from({ length: 500 }, (_, i) => i + 1));
    }
  });

  it("a peer that stopped is skipped in broadcasts", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    const stopped = await enrolRecorder(bus, "stopped");
    const running = await enrolRecorder(bus, "running");
    const last = await enrolRecorder(bus, "last");
    await shutdownWithCoordination(stopped.agent);
    await shutdownWithCoordination(last.agent);
    await board.synced();
    assertEquals(stopped.told, []);
    assertEquals(running.told.map(({ from }) => from), ["stopped", "last"]);
  });

  it("a peer hears once, however often the record of who stops is written", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    const peer = await enrolRecorder(bus, "peer");
    const { agent } = await enrolRecorder(bus, "worker-1");
    await bus.broadcastStop([agent], "test");
    await board.synced();
    const { notice } = agent;
    assert(notice !== undefined);
    for (const n of [1, 2]) {
      await board.setState("worker-1", "shutting_down", { n }, { notice });
      await board.synced();
    }
    assertEquals(peer.told.length, 1);
  });

  it("stops that are found by one look are each told of, to every peer", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    const peers = [await enrolRecorder(bus, "peer-1"), await enrolRecorder(bus, "peer-2")];
    await board.setStates(["a", "b", "c"].map((agentId) => ({
      agentId,
      state: "shutting_down",
      notice: { id: `notice-${agentId}`, reason: "test", agents: [agentId] },
    })));
    await board.synced();
    for (const { told } of peers) assertEquals(told.map(({ from }) => from), ["a", "b", "c"]);
  });

  it("a listener that throws harms nobody", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    await enrolRecorder(bus, "angry", {
      onNotification: () => {
        throw new Error("no");
      },
    });
    const calm = await enrolRecorder(bus, "calm");
    const { agent } = await enrolRecorder(bus, "worker-1");
    assert((await shutdownWithCoordination(agent)).complete);
    await board.synced();
    assertEquals(calm.told.length, 1);
  });
});
