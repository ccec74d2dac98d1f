// The sender of a simulation: it sends messages until they are stored, and cancels some.

import type { Member } from "../src/coordination/member.ts";
import { silentLog } from "../src/log.ts";
import { jsonCodec } from "../src/mailbox/codec.ts";
import { EngineMailbox } from "../src/mailbox/engine_mailbox.ts";
import { isMailboxError } from "../src/mailbox/errors.ts";
import type { Random } from "../src/random.ts";
import { SimulatedEngine } from "./engine.ts";
import { type Job, QUEUE } from "./jobs.ts";
import type { Ledger } from "./ledger.ts";
import type { Link } from "./link.ts";
import { Membership } from "./member.ts";
import type { PlannedMessage, PlannedTask } from "./scenario.ts";
import type { Server } from "./server.ts";
import type { Tracked } from "./tracked.ts";

/** The pause after a call that failed. */
const PAUSE_MS = 300;

/** How long ids are remembered. */
const DEDUP_MS = 86_400_000;

/** The parts of the simulation that a sender needs. */
export interface SenderParts {
  readonly link: Link;
  readonly server: Server;
  readonly ledger: Ledger;
  readonly random: Random;
}

/** A process that no fault hits as a whole, but whose calls may fail. */
export class Sender {
  readonly link: Link;
  readonly #ledger: Ledger;
  readonly #outbox: EngineMailbox<Job, never, string>;
  /** Its board and its bus. */
  readonly #membership: Membership;
  #peer: Promise<Member> | undefined;
  /** The number of messages that are being sent. */
  unsent = 0;

  constructor({ ledger, ...parts }: SenderParts) {
    const { link, random } = parts;
    const log = silentLog;
    this.link = link;
    this.#ledger = ledger;
    const engine = new SimulatedEngine(QUEUE, { ...parts, log });
    const options = { clock: link.host, random, log };
    this.#outbox = new EngineMailbox<Job, never, string>(QUEUE, engine, jsonCodec(), options);
    this.#membership = new Membership({ ...parts, log });
  }

  /** Sends a message until the engine confirms it. */
  async send(planned: PlannedMessage, i: number): Promise<void> {
    const { work, ms, key, priority, delayMs, expiresInMs } = planned;
    this.unsent++;
    const options = {
      id: idOf(i),
      dedupMs: DEDUP_MS,
      ...(key !== null && { key: `k${key}` }),
      ...(priority > 0 && { priority }),
      ...(delayMs > 0 && { delayMs }),
      ...(expiresInMs !== null && { expiresInMs: expiresInMs + delayMs }),
    };
    for (;;) {
      try {
        await this.#outbox.send({ work, ms }, options);
        break;
      } catch (error) {
        if (!isMailboxError(error, "MailboxConnectionError")) throw error;
        await this.link.host.sleep(PAUSE_MS);
      }
    }
    this.unsent--;
    if (this.#ledger.find(QUEUE, options.id) === undefined) {
      this.#ledger.broken("no loss", `${options.id} was confirmed and not stored`);
    }
  }

  /** Sends a message to a member, as soon as it runs and the call succeeds. */
  async sendTask(receiver: string, { work, ms }: PlannedTask): Promise<void> {
    const { bus } = this.#membership;
    this.unsent++;
    for (;;) {
      try {
        const peer = await (this.#peer ??= bus.enrol({ id: "sender" }));
        const { outcome } = await bus.send(peer, receiver, "task", { work, ms });
        if (outcome === "accepted") break;
      } catch (error) {
        if (!isMailboxError(error, "MailboxConnectionError")) throw error;
        this.#peer?.catch(() => void (this.#peer = undefined));
      }
      await this.link.host.sleep(PAUSE_MS);
    }
    this.unsent--;
  }

  /** Cancels a message, if possible the one whose running handler takes longest. */
  cancel(target: number): void {
    const isRunning = ({ handlings }: Tracked) => handlings.at(-1)?.outcome === "running";
    const running = this.#ledger.open.filter((it) => it.queue === QUEUE && isRunning(it));
    const [{ id } = { id: idOf(target) }] = running.sort((a, b) => b.job.ms - a.job.ms);
    this.#outbox.cancel(id).catch(() => {
      // The call was lost: the message stays.
    });
  }

  /** Pauses the queue. */
  pause(forMs: number): void {
    this.#outbox.pause({ forMs }).catch(() => {
      // The call was lost: the queue is not paused.
    });
  }
}

function idOf(i: number): string {
  return `m${i + 1}`;
}
