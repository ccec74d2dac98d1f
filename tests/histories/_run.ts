// Runs one history: makes the calls, disturbs them, and shows the checker what they answered.

import { redrive } from "../../src/loops/redrive.ts";
import { isMailboxError } from "../../src/mailbox/errors.ts";
import type {
  Capabilities,
  Message,
  PeekedMessage,
  SendOptions,
} from "../../src/mailbox/mailbox.ts";
import { eventually } from "../engines/_servers.ts";
import type { Command, Sending } from "../mailbox/_commands.ts";
import type { Result } from "../mailbox/_model.ts";
import { type Answer, type Call, LOST, type Seen, type Sent, type Step } from "./_calls.ts";
import { lookAt, type OpenQueue, type Site } from "./_site.ts";
import { LONG_MS } from "./_rules.ts";
import { textOf, TooUncertain, Violation, Worlds } from "./_worlds.ts";

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
  /** All deliveries, the first one first. */
  readonly #deliveries: { readonly client: number; readonly message: Message<number> }[] = [];
  /** The known ids, the newest first. */
  readonly #ids: string[] = [];
  #lastSerial = 0;

  constructor(site: Site, queue: OpenQueue, options: RunOptions) {
    this.#site = site;
    this.#queue = queue;
    this.#options = options;
    this.#capabilities = options.capabilities ?? queue.clients[0]!.mailbox.capabilities;
    this.#worlds = new Worlds(site.rules);
  }

  /** Throws a `Violation` when no possible state of the queue explains an answer. */
  async run(steps: readonly Step[]): Promise<void> {
    this.#options.counts.histories++;
    try {
      for (const step of steps) {
        for (const [i, command] of simple(step.command).entries()) {
          await this.#step(i === 0 ? { ...step, command } : { ...step, command, fault: "none" });
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
    for (const [delivery, { client, message }] of this.#deliveries.entries()) {
      if (!message.finalized) await this.#call(client, { do: "acknowledge", delivery, ms: 0 });
    }
    for (const client of [...clients, ...this.#queue.clients.keys()]) {
      for (let left = 1; left > 0;) {
        const first = this.#deliveries.length;
        await this.#call(client, { do: "receive", max: 5 });
        left = this.#deliveries.length - first;
        for (let delivery = first; delivery < first + left; delivery++) {
          await this.#call(client, { do: "acknowledge", delivery, ms: 0 });
        }
      }
    }
    await this.#call(0, { do: "look" });
  }

  async #step(step: Step): Promise<void> {
    const { command, fault, nth } = step;
    const [client, call] = this.#resolve(step.client, command);
    if (call === undefined) return;
    const { breaker } = this.#queue.clients[client]!;
    const disturbs = call.do !== "redrive" && call.do !== "redriveById";
    if (disturbs) breaker.arm(fault, nth);
    const isLost = await this.#call(client, call, disturbs ? step : undefined);
    // A repeated send without an id is another message.
    const repeats = "messages" in call ? call.messages.every(({ id }) => id !== undefined) : true;
    if (!isLost || !repeats || !(step.repeated || this.#site.repeatsAtOnce)) return;
    while (await this.#call(client, call)) { /* until it is answered */ }
  }

  /** Makes a call. Returns whether its answer was lost. */
  async #call(client: number, call: Call, step?: Step): Promise<boolean> {
    const { counts } = this.#options;
    const { breaker, mailbox } = this.#queue.clients[client]!;
    const before = this.#deliveries.length;
    let answer: Answer | typeof LOST;
    let met = false;
    counts.calls++;
    try {
      answer = await this.#perform(client, call);
    } catch (error) {
      if (!isMailboxError(error, "MailboxConnectionError")) throw error;
      answer = LOST;
      counts.lost++;
    } finally {
      met = breaker.disarm();
    }
    const how = step === undefined || step.fault === "none" || !met && answer !== LOST
      ? ""
      : ` (cut ${step.fault} command ${step.nth})`;
    const shown = answer === LOST ? "no answer" : textOf(answer);
    this.lines.push(`${client + 1}: ${describe(call, before)}${how} → ${shown}`);
    // A part of an answer is an answer where a receive is not one step.
    const isPart = call.do === "receive" && !this.#site.rules.ordered;
    const repeated = met && (isPart || this.#site.repeatsRequests === true);
    this.#worlds.observe(client, call, answer, repeated);
    if (answer === LOST || met) await eventually(() => mailbox.approximateCount());
    return answer === LOST;
  }

  async #perform(client: number, call: Call): Promise<Answer> {
    const { mailbox } = this.#queue.clients[client]!;
    switch (call.do) {
      case "send":
      case "sendMany": {
        const { messages } = call;
        const optionsOf = ({ id, options }: Sent) => {
          return { ...options, ...(id && { id }) } as SendOptions;
        };
        const sent = call.do === "send"
          ? [await mailbox.send(messages[0]!.serial, optionsOf(messages[0]!))]
          : await mailbox.sendMany(messages.map(({ serial }) => serial), (_, i) => {
            return optionsOf(messages[i]!);
          });
        const ids = sent.map(({ id }) => id);
        this.#ids.unshift(...ids);
        return { stored: sent.map(({ stored }) => stored), ids };
      }
      case "receive": {
        const options = { maxMessages: call.max, visibilityTimeoutMs: LONG_MS };
        const received = await mailbox.receive(options);
        for (const message of received) {
          const handles = this.#deliveries.map((it) => it.message.receiptHandle);
          if (handles.includes(message.receiptHandle)) {
            throw new Violation(`The receipt handle of message ${message.body} is not new`);
          }
          this.#deliveries.push({ client, message });
          this.#know(message.id);
        }
        return { received: received.map(seen) };
      }
      case "acknowledgeMany":
      case "releaseMany": {
        const messages = call.deliveries.map((it) => this.#deliveries[it]!.message);
        return { results: await mailbox[call.do](messages) };
      }
      case "redrive":
        return { value: await redrive(mailbox, { maxMessages: call.max }) };
      case "redriveById":
        return { value: await redrive(mailbox, { ids: [call.id] }) };
      case "get": {
        const found = await mailbox.get(call.id);
        return { found: found && seen(found) };
      }
      case "deleteLetter":
        return { value: await mailbox.deadLetters.cancel(call.id) };
      case "cancel":
      case "deliverNow":
        return { value: await mailbox[call.do](call.id) };
      case "pause":
      case "resume":
        return { value: await mailbox[call.do]() ?? undefined };
      case "purge":
        return { value: await mailbox.purge() };
      case "look": {
        const look = await (this.#site.look ?? lookAt)(mailbox);
        for (const { id } of look.messages ?? []) this.#know(id);
        return look;
      }
      default: {
        const { message } = this.#deliveries[call.delivery]!;
        const { ms } = call;
        const acts = {
          acknowledge: () => message.acknowledge(),
          nack: () => message.nack({ delayMs: ms }),
          nackFree: () => message.nack({ delayMs: ms, countsAttempt: false }),
          release: () => message.release(),
          deadLetter: () => message.deadLetter({ reason: "test" }),
          extend: () => message.extendVisibility(ms),
          save: () => message.saveCheckpoint(ms),
        };
        return { result: await resultOf(acts[call.do]()) };
      }
    }
  }

  #know(id: string): void {
    if (!this.#ids.includes(id)) this.#ids.unshift(id);
  }

  /** Returns the call that a command becomes on this queue, and the process that makes it. */
  #resolve(client: number, command: Command): [number, Call | undefined] {
    const { lookup, pause, fencedAck } = this.#capabilities;
    const { ordered, dedup } = this.#site.rules;
    switch (command.do) {
      case "send":
        return [client, { do: "send", messages: [this.#message(command.sending)] }];
      case "sendMany":
        return [client, {
          do: "sendMany",
          messages: command.sendings.map((it) => this.#message(it)),
        }];
      case "receive":
        return [client, { do: "receive", max: command.count }];
      case "acknowledgeMany":
      case "releaseMany": {
        const all = command.picks.map((pick) => this.#deliveries.length - 1 - pick);
        const deliveries = all.filter((it) => {
          const found = this.#deliveries[it];
          return found?.client === client && !found.message.finalized;
        });
        return [client, deliveries.length === 0 ? undefined : { do: command.do, deliveries }];
      }
      case "redrive":
        return [client, { do: "redrive", max: ordered ? command.count : 1_000 }];
      case "get":
      case "cancel":
      case "deliverNow":
      case "redriveById":
      case "deleteLetter": {
        const id = this.#ids[command.pick];
        return [client, id === undefined || !lookup ? undefined : { do: command.do, id }];
      }
      case "pause":
      case "resume":
        return [client, pause ? { do: command.do } : undefined];
      case "purge":
        return [client, fencedAck && dedup ? { do: "purge" } : undefined];
      case "pass":
      case "bounce":
        return [client, undefined];
      default: {
        const delivery = this.#deliveries.length - 1 - command.pick;
        const found = this.#deliveries[delivery];
        if (found === undefined) return [client, undefined];
        if (command.do === "save" && this.#site.savesNothing) return [client, undefined];
        return [found.client, { do: command.do, delivery, ms: command.ms }];
      }
    }
  }

  #message({ delayMs, id, dedupMs, key, priority }: Sending): Sent {
    const { keys, priorities, dedupWindow, dedup, delay } = this.#capabilities;
    const isDelayed = delayMs > 0 && delay;
    const isKeyed = key !== null && keys && !(isDelayed && this.#options.deterministic);
    return {
      serial: ++this.#lastSerial,
      id: id !== null && dedup ? `id-${id}` : undefined,
      options: {
        ...(isDelayed && { delayMs }),
        ...(id !== null && dedupMs !== null && dedupWindow && { dedupMs }),
        ...(isKeyed && { key: `key-${key}` }),
        ...(priorities && priority > 0 && { priority }),
      },
    };
  }
}

/** Makes receives and releases of a command that stands for several. */
function simple(command: Command): Command[] {
  if (command.do !== "bounce") return [command];
  return Array.from({ length: command.count }, (): Command[] => [
    { do: "receive", count: 1, ms: LONG_MS },
    { do: "release", pick: 0, ms: 0 },
  ]).flat();
}

function seen(
  message: PeekedMessage<number> & { readonly checkpoint?: unknown },
): Seen {
  const { body, id, deliveryCount, checkpoint, state } = message;
  return { serial: body, id, deliveryCount, checkpoint, state };
}

async function resultOf(act: Promise<void>): Promise<Result> {
  try {
    await act;
    return "done";
  } catch (error) {
    const names = ["ReceiptHandleExpiredError", "MessageFinalizedError"] as const;
    const name = names.find((it) => isMailboxError(error, it));
    if (name === undefined) throw error;
    return name;
  }
}

/** Describes a call for readers. `first` is the position of the next delivery. */
function describe(call: Call, first: number): string {
  if ("messages" in call) {
    return `${call.do} ${
      call.messages.map(({ serial, id, options }) => {
        const more = Object.entries({ id, ...options }).filter(([, value]) => value !== undefined);
        return [`#${serial}`, ...more.map(([name, value]) => `${name}=${value}`)].join(" ");
      }).join(", ")
    }`;
  }
  if ("delivery" in call) return `${call.do} d${call.delivery}${call.ms > 0 ? ` ${call.ms}` : ""}`;
  if ("deliveries" in call) return `${call.do} ${call.deliveries.map((it) => `d${it}`).join(" ")}`;
  if ("id" in call) return `${call.do} ${call.id.length < 9 ? call.id : "a generated id"}`;
  if (call.do === "receive") return `receive ${call.max} as d${first}…`;
  return "max" in call ? `${call.do} ${call.max}` : call.do;
}
