// Faults that other implementations of this protocol have.

import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type BusMessage, shutdownWithCoordination } from "../../src/coordination/mod.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { enrolRecorder, makeWorld, sendTasks } from "./_world.ts";

describe("coordination under faults", () => {
  it("a malformed message is dead-lettered, and the other twelve are handled", async () => {
    await using world = await makeWorld();
    const { bus, sender } = world;
    const { member, worked } = await enrolRecorder(bus, "worker-1");
    await sendTasks(bus, sender, "worker-1", 6);
    await member.inbox.send("{ not a message" as unknown as BusMessage);
    await sendTasks(bus, sender, "worker-1", 6);
    const report = await shutdownWithCoordination(member);
    assertEquals([worked.length, report.failed, report.complete], [12, 1, true]);
    const [deadLetter] = await member.inbox.deadLetters!.receive();
    assertEquals([deadLetter?.body.reason, deadLetter?.body.body as unknown], [
      "malformed",
      "{ not a message",
    ]);
  });

  it("a handler that throws dead-letters its message, and the others are handled", async () => {
    await using world = await makeWorld();
    const { member, worked } = await enrolRecorder(world.bus, "worker-1", {
      handlers: {
        task({ payload }) {
          if ((payload as { id: number }).id === 2) throw new Error("payment refused");
          worked.push(payload);
        },
      },
    });
    await sendTasks(world.bus, world.sender, "worker-1", 4);
    const report = await shutdownWithCoordination(member);
    assertEquals([worked.length, report.processed, report.failed], [3, 3, 1]);
    const [deadLetter] = await member.inbox.deadLetters!.receive();
    assertEquals(deadLetter?.body.error, "Error: payment refused");
  });

  it("messages of unknown types go to the dead letters, or to the archive", async () => {
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
      await shutdownWithCoordination(one.member),
      await shutdownWithCoordination(two.member),
    ];
    assertEquals(reports.map((it) => [it.complete, it.processed, it.archived]), [
      [true, 1, 1],
      [true, 1, 1],
    ]);
    const [deadLetter] = await one.member.inbox.deadLetters!.receive();
    assertEquals(deadLetter?.body.reason, "unknown_type");
    const [kept] = await archive.receive();
    assertEquals(kept?.body.payload, { what: "two" });
  });

  it("the archive and the successor get messages with their headers and reply address", async () => {
    await using world = await makeWorld();
    const { bus, clock } = world;
    const archive = new InMemoryMailbox<BusMessage>("archive");
    const next = await enrolRecorder(bus, "next");
    const { member } = await enrolRecorder(bus, "worker-1", {
      archive,
      successor: "next",
      handlers: { task: (_, { signal }) => clock.sleep(60_000, { signal }) },
    });
    const parts = { version: "1.0", from: "x", to: "worker-1", timestamp: 0, sequence: 1 } as const;
    const options = { headers: { tenant: "a" }, replyTo: "answers" };
    for (const type of ["unknown", "task"]) {
      const message = { ...parts, msg_id: type, type, payload: {}, requires_ack: false };
      await member.inbox.send(message, options);
    }
    const report = await clock.until(shutdownWithCoordination(member, { timeoutMs: 1_000 }));
    assertEquals([report.archived, report.handedOver], [1, 1]);
    for (const mailbox of [archive, next.member.inbox]) {
      const [message] = await mailbox.receive();
      assertEquals({ headers: message?.headers, replyTo: message?.replyTo }, options);
    }
  });

  it("99 notifications displace none of 40 messages in an inbox for 100", async () => {
    const inbox = new InMemoryMailbox<BusMessage>("worker-1", { maxSize: 100 });
    await using world = await makeWorld();
    const { bus, sender, board } = world;
    const { member, worked, told } = await enrolRecorder(bus, "worker-1", { inbox });
    await sendTasks(bus, sender, "worker-1", 40);
    const others = await bus.enrolAll(
      Array.from({ length: 99 }, (_, i) => ({ id: `other-${i}` })),
    );
    for (const other of others) await shutdownWithCoordination(other);
    await board.synced();
    assertEquals(told.length, 99);
    assertEquals(new Set(told.map(({ msg_id }) => msg_id)).size, 99);
    assertEquals(await inbox.approximateCount(), 40);
    assertEquals((await shutdownWithCoordination(member)).processed, 40);
    assertEquals(worked.length, 40);
  });

  it("a full inbox refuses a send and evicts nothing", async () => {
    const inbox = new InMemoryMailbox<BusMessage>("worker-1", { maxSize: 3 });
    await using world = await makeWorld();
    const { member, worked } = await enrolRecorder(world.bus, "worker-1", { inbox });
    await sendTasks(world.bus, world.sender, "worker-1", 3);
    await assertRejects(
      () => world.bus.send(world.sender, "worker-1", "task", {}),
      Error,
      "is full",
    );
    await shutdownWithCoordination(member);
    assertEquals(worked, [{ id: 1 }, { id: 2 }, { id: 3 }]);
  });

  it("1,000 parallel sends get 1,000 ids, and sequences without gaps for each pair", async () => {
    await using world = await makeWorld();
    const { bus, sender } = world;
    const receivers = [await enrolRecorder(bus, "one"), await enrolRecorder(bus, "two")];
    const results = await Promise.all(Array.from({ length: 1_000 }, (_, i) => {
      return bus.send(sender, i % 2 ? "one" : "two", "task", {});
    }));
    const ids = results.map((it) => it.outcome === "accepted" ? it.messageId : "");
    assertEquals(new Set(ids).size, 1_000);
    for (const { member } of receivers) {
      const messages = await member.inbox.receive({ maxMessages: 1_000 });
      const sequences = messages.map(({ body }) => body.sequence).sort((a, b) => a - b);
      assertEquals(sequences, Array.from({ length: 500 }, (_, i) => i + 1));
    }
  });

  it("a peer that stopped gets no notification", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    const stopped = await enrolRecorder(bus, "stopped");
    const running = await enrolRecorder(bus, "running");
    const last = await enrolRecorder(bus, "last");
    await shutdownWithCoordination(stopped.member);
    await shutdownWithCoordination(last.member);
    await board.synced();
    assertEquals(stopped.told, []);
    assertEquals(running.told.map(({ from }) => from), ["stopped", "last"]);
  });

  it("a peer is notified once, however often the record of a stop is written", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    const peer = await enrolRecorder(bus, "peer");
    const { member } = await enrolRecorder(bus, "worker-1");
    await bus.broadcastStop([member], "test");
    await board.synced();
    const { notice } = member;
    assert(notice !== undefined);
    for (const n of [1, 2]) {
      await board.setState("worker-1", "shutting_down", { n }, { notice });
      await board.synced();
    }
    assertEquals(peer.told.length, 1);
  });

  it("stops that one poll finds are each notified to every peer", async () => {
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

  it("a notification handler that throws does not affect others", async () => {
    await using world = await makeWorld();
    const { bus, board } = world;
    await enrolRecorder(bus, "throwing", {
      onNotification: () => {
        throw new Error("no");
      },
    });
    const other = await enrolRecorder(bus, "other");
    const { member } = await enrolRecorder(bus, "worker-1");
    assert((await shutdownWithCoordination(member)).complete);
    await board.synced();
    assertEquals(other.told.length, 1);
  });
});
