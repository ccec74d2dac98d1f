// Planted bugs of loops, of starts and stops, and of cron. The simulator must find every one.

import { type Mutant, STORAGE_MUTANTS } from "./storage_mutants.ts";

/** All mutants, in the order of the data flow. */
export const MUTANTS: readonly Mutant[] = [
  ...STORAGE_MUTANTS,
  // The loop.
  {
    name: "a stop keeps unstarted messages",
    file: "src/loops/_mailbox_run.ts",
    find: "this.#slotFree?.resolve();\n    this.#releaseWaiting();",
    replace: "this.#slotFree?.resolve();",
  },
  {
    name: "messages that were received ahead wait for slow handlers",
    file: "src/loops/_prefetch.ts",
    find:
      "if (first !== undefined && this.#clock.monotonic() - first > MAX_WAIT_MS - 1) release();",
    replace: "if (first !== undefined) return;",
  },
  {
    name: "a message that was received ahead spends an attempt",
    file: "src/mailbox/engine_mailbox.ts",
    find: "withoutAttempt ? engine.nack(deliveries, 0, false) : engine.release(deliveries)",
    replace: "withoutAttempt ? engine.nack(deliveries, 0, true) : engine.release(deliveries)",
  },
  {
    name: "a stop does not end a waiting receive",
    file: "src/loops/_mailbox_run.ts",
    find: "this.endWait();\n    this.#slotFree?.resolve();",
    replace: "this.#slotFree?.resolve();",
  },
  {
    name: "a cancelled message is handled to its end",
    file: "src/loops/_settler.ts",
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
    find: "if (message.settling !== undefined) await message.settling;",
    replace: 'if (Math.random) return { kind: "acknowledge" };',
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
    find: "if (around === undefined) return handler(message, context);",
    replace:
      "if (around === undefined) return void Promise.resolve(handler(message, context)).catch(() => {});",
  },
  {
    name: "a message counts twice in the report",
    file: "src/loops/_settler.ts",
    find: 'this.#counts[isCancelled ? "cancelled" : outcome]++;',
    replace: 'this.#counts.released++; this.#counts[isCancelled ? "cancelled" : outcome]++;',
  },
  {
    name: "an acknowledgement whose answer was lost is not repeated",
    file: "src/loops/_settling_calls.ts",
    find: "const last = stale || closed || attempt >= ATTEMPTS && !away;",
    replace: "const last = true;",
  },
  {
    name: "a message is released after its handler has succeeded",
    file: "src/loops/_settler.ts",
    find: 'else if (decision.kind === "acknowledge") return this.#acknowledge(item);',
    replace:
      'else if (decision.kind === "acknowledge") outcome = await this.#settleOne(message, { kind: "release" });',
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
