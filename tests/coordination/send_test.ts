import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type SendResult, shutdownWithCoordination } from "../../src/coordination/mod.ts";
import { enrolRecorder, makeWorld } from "./_world.ts";

const brief = (it: SendResult) => `${it.outcome} ${it.to}`;

describe("sending to a peer", () => {
  it("a send is accepted, paused or gone, depending on the record of the receiver", async () => {
    await using world = await makeWorld();
    const { bus, board, sender, clock } = world;
    for (const id of ["running", "stopping", "stopped"]) await enrolRecorder(bus, id);
    await board.setState("stopping", "shutting_down");
    await board.setState("stopped", "shutting_down");
    await board.setState("stopped", "shutdown_complete");
    await board.setState("dead", "running");
    await clock.advance(60_000);
    const results: string[] = [];
    for (const to of ["running", "stopping", "stopped", "dead", "absent"]) {
      const result = await bus.send(sender, to, "task", {});
      const { status } = result.outcome === "accepted" ? { status: "" } : result.record;
      results.push(`${brief(result)} ${status}`.trim());
    }
    assertEquals(results, [
      "accepted running",
      "paused stopping shutting_down",
      "gone stopped shutdown_complete",
      "gone dead stale",
      "gone absent unknown",
    ]);
    assertEquals(await (await bus.inboxOf("stopping")).approximateCount(), 0);
  });

  it("a send with hold waits until the peer runs again", async () => {
    await using world = await makeWorld();
    const { bus, board, sender, clock } = world;
    await enrolRecorder(bus, "peer");
    await board.setState("peer", "shutting_down");
    await board.synced();
    let done = false;
    const sent = bus.send(sender, "peer", "task", {}, { whenPaused: "hold" })
      .finally(() => done = true);
    await clock.settle();
    assert(!done);
    await board.setState("peer", "running", {}, { force: true });
    assertEquals(brief(await sent), "accepted peer");
  });

  it("a held send returns when the peer is gone, and rejects with its signal or the closed bus", async () => {
    await using world = await makeWorld();
    const { bus, board, sender, clock } = world;
    await enrolRecorder(bus, "peer");
    await board.setState("peer", "shutting_down");
    await board.synced();
    const abort = new AbortController();
    const hold = (signal?: AbortSignal) =>
      bus.send(sender, "peer", "task", {}, { whenPaused: "hold", ...(signal && { signal }) });
    const aborted = assertRejects(() => hold(abort.signal), Error, "cancelled by the sender");
    const held = hold();
    await clock.settle();
    abort.abort(new Error("cancelled by the sender"));
    await aborted;
    await board.setState("peer", "shutdown_complete");
    assertEquals(brief(await held), "gone peer");

    await board.setState("other", "shutting_down");
    await board.synced();
    const closed = assertRejects(
      () => bus.send(sender, "other", "task", {}, { whenPaused: "hold" }),
      Error,
      "closed while a message was held",
    );
    await clock.settle();
    await bus.close();
    await closed;
  });

  it("a send can be redirected to the successor or to a named member, but not in a circle", async () => {
    await using world = await makeWorld();
    const { bus, board, sender } = world;
    await enrolRecorder(bus, "first", { successor: "second" });
    await enrolRecorder(bus, "second", { successor: "first" });
    await enrolRecorder(bus, "third");
    await shutdownWithCoordination(bus.members.find(({ id }) => id === "first")!);
    await board.synced();
    const redirected = await bus.send(sender, "first", "task", { n: 1 }, {
      whenPaused: "redirect",
    });
    assertEquals(brief(redirected), "accepted second");
    const [message] = await (await bus.inboxOf("second")).receive();
    assertEquals([message?.body.to, message?.body.payload], ["second", { n: 1 }]);
    await message?.acknowledge();
    await shutdownWithCoordination(bus.members.find(({ id }) => id === "second")!);
    await board.synced();
    const circle = await bus.send(sender, "first", "task", {}, { whenPaused: "redirect" });
    assert(circle.outcome !== "accepted");
    const named = await bus.send(sender, "first", "task", {}, {
      whenPaused: { redirectTo: "third" },
    });
    assertEquals(brief(named), "accepted third");
  });
});

describe("enrolling a member", () => {
  it("an enrolled member does not become stale until its bus is closed", async () => {
    await using world = await makeWorld();
    const { board, clock, bus } = world;
    await clock.advance(120_000);
    assertEquals((await board.getState("sender")).status, "running");
    await bus.close();
    await clock.advance(31_000);
    assertEquals((await board.getState("sender")).status, "stale");
  });

  it("refuses an id that is enrolled already, and an invalid one", async () => {
    await using world = await makeWorld();
    const { bus } = world;
    await assertRejects(() => bus.enrol({ id: "sender" }), Error, "is enrolled already");
    await assertRejects(() => bus.enrol({ id: "../x" }), TypeError, "Invalid agent id");
    await assertRejects(() => bus.enrolAll([{ id: "a" }, { id: "a" }]), Error, "already");
    await assertRejects(() => bus.enrol({ id: "a", successor: "a" }), TypeError, "succeed itself");
    assertEquals(bus.members.map(({ id }) => id), ["sender"]);
  });

  it("a member can be enrolled again after its stop", async () => {
    await using world = await makeWorld();
    const { bus, sender } = world;
    for (let life = 1; life <= 2; life++) {
      const { member, worked } = await enrolRecorder(bus, "worker-1");
      await world.board.synced();
      await bus.send(sender, "worker-1", "task", { life });
      assert((await shutdownWithCoordination(member)).complete);
      assertEquals(worked, [{ life }]);
    }
  });
});
