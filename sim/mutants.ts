// Planted bugs: each changes a few words of the package. The simulator must find every one.

/** A change of one place in one source file. */
export interface Mutant {
  readonly name: string;
  readonly file: string;
  /** The text to replace, which the file has exactly once. */
  readonly find: string;
  readonly replace: string;
}

/** All mutants, in the order of the data flow. */
export const MUTANTS: readonly Mutant[] = [
  // The engine in memory, which is the server of the simulation.
  {
    name: "a stale receipt handle settles",
    file: "src/mailbox/memory_engine.ts",
    find: "if (slot.holder !== delivery || slot.dueAt <= now) return false;",
    replace: "if (slot.holder === undefined) return false;",
  },
  {
    name: "a delivery counts as two attempts",
    file: "src/mailbox/memory_engine.ts",
    find: "slot.deliveryCount++;",
    replace: "slot.deliveryCount += 2;",
  },
  {
    name: "a release counts as an attempt",
    file: "src/mailbox/memory_engine.ts",
    find: "if (slot.releases++ < FREE_RELEASES) slot.deliveryCount--;",
    replace: "",
  },
  {
    name: "dead-lettering leaves the message",
    file: "src/mailbox/memory_engine.ts",
    find: "this.#remove(slot);\n      this.deadLetters()",
    replace: "this.#show(slot);\n      this.deadLetters()",
  },
  {
    name: "a message whose lease expired stays hidden",
    file: "src/mailbox/memory_engine.ts",
    find: "if (slot.holder !== undefined) slot.leaseExpiries++;",
    replace:
      "if (slot.holder !== undefined) { slot.dueAt = Infinity; this.#due.moved(slot); continue; }",
  },
  {
    name: "a release wakes no receive",
    file: "src/mailbox/memory_engine.ts",
    find: "this.#show(slot);\n    });\n    this.#wake();",
    replace: "this.#show(slot);\n    });",
  },
  {
    name: "a key is unblocked when its message is delivered",
    file: "src/mailbox/_memory_lines.ts",
    find: "if (slot !== undefined) return slot;",
    replace:
      "if (slot !== undefined) { if (slot.joined) { slot.joined = false; this.leave(slot); slot.gone = false; } return slot; }",
  },
  {
    name: "acknowledging does not unblock a key",
    file: "src/mailbox/_memory_lines.ts",
    find: "else this.putBack(next);",
    replace: "",
  },
  {
    name: "an id is forgotten with its message",
    file: "src/mailbox/memory_engine.ts",
    find: "dedupMs !== undefined && this.#remembered.has(id)",
    replace: "false",
  },
  // The mailbox.
  {
    name: "a wake-up wakes no receive",
    file: "src/mailbox/_receiver.ts",
    find: "this.#sleepers.delete(wake);\n      return wake();",
    replace: "this.#sleepers.delete(wake);\n      return;",
  },
  {
    name: "messages that arrive after an abort are kept",
    file: "src/mailbox/_receiver.ts",
    find:
      "if (answer.deliveries.length > 0) await this.#storage.engine.release(answer.deliveries);",
    replace: "",
  },
  {
    name: "an expired message is handled",
    file: "src/mailbox/_opener.ts",
    find: "- delivery.enqueuedAt >= envelope.expiresInMs;",
    replace: "- delivery.enqueuedAt >= envelope.expiresInMs * 1_000;",
  },
  // Leases.
  {
    name: "leases are extended too late",
    file: "src/lease/lease_extender.ts",
    find: "visibilityTimeoutMs * LEASE_INTERVAL_SHARE",
    replace: "visibilityTimeoutMs * 1.2",
  },
  {
    name: "a lease is extended once only",
    file: "src/lease/_lease_timer.ts",
    find: "return this.#schedule(lease, now + intervalMs);",
    replace: "return;",
  },
  {
    name: "a message that its handler has settled is extended",
    file: "src/lease/_active_lease.ts",
    find: "return this.message.finalized || this.message.settling !== undefined;",
    replace: "return false;",
  },
  // The loop.
  {
    name: "a stop keeps unstarted messages",
    file: "src/loops/_mailbox_run.ts",
    find:
      "this.#slotFree?.resolve();\n    this.#settler.releaseUnstarted(this.#waiting.splice(0));",
    replace: "this.#slotFree?.resolve();",
  },
  {
    name: "a stop does not end a waiting receive",
    file: "src/loops/_mailbox_run.ts",
    find: "this.endWait();\n    this.#slotFree?.resolve();",
    replace: "this.#slotFree?.resolve();",
  },
  {
    name: "a cancelled message is handled to its end",
    file: "src/loops/_mailbox_run.ts",
    find: 'item.context?.cancel(new CancelledError("cancelled", `message ${id}`));',
    replace: "",
  },
  {
    name: "suspects run beside other messages",
    file: "src/mailbox/dead_letters.ts",
    find: "if (leaseExpiries !== undefined) return leaseExpiries >= SUSPECT_AFTER;",
    replace: "return false;",
  },
  {
    name: "a failed handler acknowledges",
    file: "src/loops/handler.ts",
    find: "if (message.settling !== undefined) await message.settling;\n    return afterFailure(",
    replace: 'if (Math.random) return { kind: "acknowledge" };\n    return afterFailure(',
  },
  {
    name: "a cancelled handler has failed",
    file: "src/loops/handler.ts",
    find: 'if (context.reason !== undefined) return { kind: "release" };',
    replace: "",
  },
  {
    name: "a message is dead-lettered one attempt early",
    file: "src/mailbox/dead_letters.ts",
    find: "deliveryCount - leaseExpiries < maxDeliveries",
    replace: "deliveryCount - leaseExpiries < maxDeliveries - 1",
  },
  {
    name: "a lost lease counts as a failed attempt",
    file: "src/mailbox/dead_letters.ts",
    find: "deliveryCount - leaseExpiries < maxDeliveries",
    replace: "deliveryCount < maxDeliveries",
  },
  {
    name: "a finished step runs again",
    file: "src/loops/_steps.ts",
    find: "if (finished !== undefined) return finished.result as S;",
    replace: "",
  },
  {
    name: "a message is acknowledged before its handler ends",
    file: "src/loops/handler.ts",
    find: "if (around === undefined) await handler(input, context);",
    replace: "if (around === undefined) Promise.resolve(handler(input, context)).catch(() => {});",
  },
  {
    name: "a message counts twice in the report",
    file: "src/loops/_settler.ts",
    find: 'if (this.#open.delete(item)) this.#counts[isCancelled ? "cancelled" : outcome]++;',
    replace:
      'this.#open.delete(item); this.#counts.released++; this.#counts[isCancelled ? "cancelled" : outcome]++;',
  },
  {
    name: "a message is released after its handler has succeeded",
    file: "src/loops/_settler.ts",
    find:
      'else if (decision.kind === "acknowledge") this.#acknowledge(item);\n    else this.#close',
    replace:
      'else if (decision.kind === "acknowledge") this.#close(item, await this.#settleOne(message, { kind: "release" }));\n    else this.#close',
  },
  // Start and stop.
  {
    name: "each stage of a stop has a deadline of its own",
    file: "src/lifecycle/deadline.ts",
    find: "return this.#clock.monotonic() - this.#began;",
    replace: "return 0;",
  },
  {
    name: "a stop waits for handlers without a limit",
    file: "src/lifecycle/deadline.ts",
    find: "return await settlesWithin(ended, reserveMs, clock);",
    replace: "return await settlesWithin(ended, reserveMs * 1_000, clock);",
  },
  {
    name: "a repeated signal forces the stop",
    file: "src/lifecycle/shutdown_coordinator.ts",
    find: "if (now - this.#lastSignalAt < SAME_SIGNAL_MS) return;",
    replace: "",
  },
  {
    name: "a signal cancels handlers at once",
    file: "src/lifecycle/deadline.ts",
    find: "if (await settlesWithin(ended, timeoutMs - reserveMs, clock)) return true;",
    replace: "if (await settlesWithin(ended, 10, clock)) return true;",
  },
  {
    name: "resources stop before the loops",
    file: "src/lifecycle/_group_run.ts",
    find: "await this.#stopLoops();\n      await this.#traceStop();",
    replace:
      "await this.#resources.stop(this.#deadline);\n      await this.#stopLoops();\n      await this.#traceStop();",
  },
  {
    name: "a signal is not heard",
    file: "src/lifecycle/_group_run.ts",
    find: "coordinator.register(this.#stopLoopGroup, this.#options);",
    replace: "",
  },
  // Owners.
  {
    name: "an owner that reconnects is taken for dead",
    file: "src/engines/_kit/owners.ts",
    find: "if (this.#stopped || graceMs > 0 && now - since < graceMs) continue;",
    replace: "if (this.#stopped) continue;",
  },
  {
    name: "dead owners keep their leases",
    file: "src/engines/_kit/owners.ts",
    find: "const expired = await this.#registry.expire(owner);",
    replace: "const expired = 0;",
  },
  {
    name: "a lost receive is not undone",
    file: "src/engines/_kit/calls.ts",
    find: "await undo(due.map(({ call }) => call));",
    replace: "",
  },
  // Cron.
  {
    name: "replicas send the same slot",
    file: "src/cron/_cron_run.ts",
    find: "id: slots[i]!.id, dedupMs }",
    replace: 'id: `${slots[i]!.id}` + (this.#config.clock.now() % 2 === 0 ? "" : "!"), dedupMs }',
  },
  {
    name: "a slot is skipped after a failure",
    file: "src/cron/_cron_run.ts",
    find: "if (error instanceof BodyError) throw error.cause;",
    replace:
      "if (error instanceof BodyError) throw error.cause;\n    this.#position = this.#config.clock.now();",
  },
  {
    name: "missed slots are forgotten",
    file: "src/cron/_cron_run.ts",
    find: "this.#position ??= await record?.begin(clock.now()) ?? clock.now();",
    replace: "this.#position ??= clock.now();",
  },
];
