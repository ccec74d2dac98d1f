// Makes calls of random commands: which delivery or id they are about, and what the engine can do.

import type { Capabilities } from "../../src/mailbox/mailbox.ts";
import type { Command, Sending } from "../mailbox/_commands.ts";
import type { Call, Sent } from "./_calls.ts";
import type { Caller } from "./_caller.ts";
import { LONG_MS } from "./_rules.ts";
import type { Site } from "./_site.ts";

/** Options of {@linkcode Resolver}. */
export interface ResolverOptions {
  readonly site: Site;
  readonly capabilities: Capabilities;
  /** True to avoid what the contract leaves open: delayed messages have no key then. */
  readonly deterministic: boolean;
}

/** Turns commands into calls. */
export class Resolver {
  readonly #options: ResolverOptions;
  readonly #caller: Caller;
  #lastSerial = 0;

  constructor(options: ResolverOptions, caller: Caller) {
    this.#options = options;
    this.#caller = caller;
  }

  /** Returns the call that a command becomes on this queue, and the process that makes it. */
  resolve(client: number, command: Command, insists: boolean): [number, Call | undefined] {
    const { lookup, pause, fencedAck } = this.#options.capabilities;
    const { ordered, dedup } = this.#options.site.rules;
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
        const all = command.picks.map((pick, i) => this.#pick(pick, insists && i === 0));
        const deliveries = all.filter((it) => {
          const found = this.#caller.deliveries[it];
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
        const id = this.#caller.ids[command.pick];
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
        const delivery = this.#pick(command.pick, insists);
        const found = this.#caller.deliveries[delivery];
        if (found === undefined) return [client, undefined];
        if (command.do === "save" && this.#options.site.savesNothing) return [client, undefined];
        return [found.client, { do: command.do, delivery, ms: command.ms }];
      }
    }
  }

  /** Returns the position of a delivery, counted from the newest one. */
  #pick(pick: number, insists: boolean): number {
    const { deliveries, lost } = this.#caller;
    if (insists && lost !== undefined && !deliveries[lost]!.message.finalized) return lost;
    return deliveries.length - 1 - pick;
  }

  #message({ delayMs, id, dedupMs, key, priority }: Sending): Sent {
    const { keys, priorities, dedupWindow, dedup, delay } = this.#options.capabilities;
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
export function simple(command: Command): Command[] {
  if (command.do !== "bounce") return [command];
  return Array.from({ length: command.count }, (): Command[] => [
    { do: "receive", count: 1, ms: LONG_MS },
    { do: "release", pick: 0, ms: 0 },
  ]).flat();
}
