// Planted bugs of engines, mailboxes and leases: each changes a few words of the package.

/** A change of one place in one source file. */
export interface Mutant {
  readonly name: string;
  readonly file: string;
  /** The text to replace, which occurs exactly once in the file. */
  readonly find: string;
  readonly replace: string;
}

/** The mutants of the code that stores and delivers messages. */
export const STORAGE_MUTANTS: readonly Mutant[] = [
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
    replace: "if (slot.holder !== undefined) { this.#due.move(slot, Infinity); continue; }",
  },
  {
    name: "a release wakes no receive",
    file: "src/mailbox/memory_engine.ts",
    find: "this.#show(slot);\n    });\n    this.#wake();",
    replace: "this.#show(slot);\n    });",
  },
  {
    name: "a nack wakes no receive",
    file: "src/mailbox/memory_engine.ts",
    find: "this.#due.move(slot, now + delayMs);\n    });\n    this.#wake();",
    replace: "this.#due.move(slot, now + delayMs);\n    });",
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
    name: "a wake-up during a receive is lost",
    file: "src/mailbox/_receiver.ts",
    find: "const isQuiet = wakes === this.#wakes && waiter.handover === undefined;",
    replace: "const isQuiet = true;",
  },
  {
    name: "a wake-up wakes no receive",
    file: "src/mailbox/_receiver.ts",
    find: "waiter.wake?.();",
    replace: "",
  },
  {
    name: "messages that arrive after an abort are kept",
    file: "src/mailbox/_receiver.ts",
    find: "await this.#release(answer.deliveries);\n    return nothing();",
    replace: "return nothing();",
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
    name: "a failed extension is not tried again",
    file: "src/lease/_lease_timer.ts",
    find:
      'log.warn("lease could not be extended; trying again", { id, error: result });\n    this.#schedule(lease, now + intervalMs * RETRY_SHARE);',
    replace: "",
  },
  {
    name: "a message that its handler has settled is extended",
    file: "src/lease/_active_lease.ts",
    find: "return this.message.finalized || this.message.settling !== undefined;",
    replace: "return false;",
  },
  // Handovers.
  {
    name: "a failed call drops what was handed over",
    file: "src/mailbox/_receiver.ts",
    find: "if (waiter.handover === undefined) throw error;",
    replace: "waiter.handover = undefined;\n      throw error;",
  },
  {
    name: "a message that is handed over during a call is overlooked",
    file: "src/mailbox/_receiver.ts",
    find: "wakes === this.#wakes && waiter.handover === undefined;",
    replace: "wakes === this.#wakes;",
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
    find: "await this.#undo(due.map(({ call }) => call));",
    replace: "",
  },
];
