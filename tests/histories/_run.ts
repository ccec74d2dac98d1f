// Runs one history: makes the calls, disturbs them, and shows the checker what they answered.

import { isMailboxError } from "../../src/mailbox/errors.ts";
import type { Capabilities } from "../../src/mailbox/mailbox.ts";
import { eventually } from "../engines/_servers.ts";
import { type Answer, type Call, LOST, type Step } from "./_calls.ts";
import { Caller } from "./_caller.ts";
import { describe, shownAs } from "./_describe.ts";
import { Resolver, simple } from "./_resolver.ts";
import type { OpenQueue, Site } from "./_site.ts";
import { TooUncertain, Worlds } from "./_worlds.ts";

/** What happened in all histories of a test. */
export interface Counts {
  histories: number;
  calls: number;
  /** Calls whose answer was lost. */
  lost: number;
  /** Histories that had too many possible states to the end. */
  unfinished: number;
}

/** Options of {@linkcode Run}. */
export interface RunOptions {
  readonly counts: Counts;
  /** What both of two engines can do that are compared. @default what the engine can do */
  readonly capabilities?: Capabilities;
  /** True to avoid what the contract leaves open: delayed messages have no key then. @default {false} */
  readonly deterministic?: boolean;
}

/** One history on one queue. */
export class Run {
  /** What happened, one call per line. */
  readonly lines: string[] = [];
  readonly #site: Site;
  readonly #queue: OpenQueue;
  readonly #options: RunOptions;
  readonly #capabilities: Capabilities;
  readonly #worlds: Worlds;
  readonly #caller: Caller;
  readonly #resolver: Resolver;

  constructor(site: Site, queue: OpenQueue, options: RunOptions) {
    this.#site = site;
    this.#queue = queue;
    this.#options = options;
    this.#capabilities = options.capabilities ??
      queue.clients[0]!.mailbox.capabilities;
    this.#worlds = new Worlds(site.rules);
    this.#caller = new Caller(site, queue);
    const { deterministic = false } = options;
    const shared = { site, capabilities: this.#capabilities, deterministic };
    this.#resolver = new Resolver(shared, this.#caller);
  }

  /** Throws a `Violation` when no possible state of the queue explains an answer. */
  async run(steps: readonly Step[]): Promise<void> {
    this.#options.counts.histories++;
    try {
      for (const step of steps) {
        for (const [i, command] of simple(step.command).entries()) {
          await this.#step(
            i === 0 ? { ...step, command } : { ...step, command, fault: "none" },
          );
        }
        if (step.looks) await this.#call(step.client, { do: "look" });
      }
      await this.#finish();
    } catch (error) {
      if (!(error instanceof TooUncertain)) throw error;
      this.#options.counts.unfinished++;
    }
  }

  /** With all connections restored, every message is where some possible state has it. */
  async #finish(): Promise<void> {
    const clients = this.#queue.clients.keys();
    await this.#call(0, { do: "look" });
    if (this.#capabilities.pause) await this.#call(0, { do: "resume" });
    for (
      const [delivery, { client, message }] of this.#caller.deliveries.entries()
    ) {
      if (!message.finalized) {
        await this.#call(client, { do: "acknowledge", delivery, ms: 0 });
      }
    }
    for (const client of [...clients, ...this.#queue.clients.keys()]) {
      for (let left = 1; left > 0;) {
        const first = this.#caller.deliveries.length;
        await this.#call(client, { do: "receive", max: 5 });
        left = this.#caller.deliveries.length - first;
        for (let delivery = first; delivery < first + left; delivery++) {
          await this.#call(client, { do: "acknowledge", delivery, ms: 0 });
        }
      }
    }
    await this.#call(0, { do: "look" });
  }

  async #step(step: Step): Promise<void> {
    const { command, fault, nth } = step;
    const [client, call] = this.#resolver.resolve(
      step.client,
      command,
      step.insists,
    );
    if (call === undefined) return;
    const { breaker } = this.#queue.clients[client]!;
    const disturbs = call.do !== "redrive" && call.do !== "redriveById";
    if (disturbs) breaker.arm(fault, nth);
    const isLost = await this.#call(client, call, disturbs ? step : undefined);
    // A repeated send without an id is another message.
    const repeats = "messages" in call ? call.messages.every(({ id }) => id !== undefined) : true;
    if (!isLost || !repeats || !(step.repeated || this.#site.repeatsAtOnce)) {
      return;
    }
    while (await this.#call(client, call)) { /* until it is answered */ }
  }

  /** Makes a call. Returns whether its answer was lost. */
  async #call(client: number, call: Call, step?: Step): Promise<boolean> {
    const { counts } = this.#options;
    const { breaker, mailbox } = this.#queue.clients[client]!;
    const before = this.#caller.deliveries.length;
    let answer: Answer | typeof LOST;
    let met = false;
    counts.calls++;
    try {
      answer = await this.#caller.perform(client, call);
    } catch (error) {
      if (!isMailboxError(error, "MailboxConnectionError")) throw error;
      answer = LOST;
      counts.lost++;
      if ("delivery" in call) this.#caller.lost = call.delivery;
      if ("deliveries" in call) this.#caller.lost = call.deliveries[0];
    } finally {
      met = breaker.disarm();
    }
    const how = step === undefined || step.fault === "none" || !met && answer !== LOST
      ? ""
      : ` (cut ${step.fault} command ${step.nth})`;
    const shown = answer === LOST ? "no answer" : shownAs(answer);
    this.lines.push(
      `${client + 1}: ${describe(call, before)}${how} → ${shown}`,
    );
    // A part of an answer is an answer where a receive is not one step.
    const isPart = call.do === "receive" && !this.#site.rules.ordered;
    const repeated = met && (isPart || this.#site.repeatsRequests === true);
    this.#worlds.observe(client, call, answer, repeated);
    if (answer === LOST || met) {
      await eventually(() => mailbox.approximateCount());
    }
    return answer === LOST;
  }
}
