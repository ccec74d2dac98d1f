import { assert, assertEquals, assertRejects } from "@std/assert";
import { silentLog } from "../../log.ts";
import { isMailboxError, type MailboxErrorName } from "../../mailbox/errors.ts";
import type {
  Capabilities,
  Mailbox,
  MailboxOptions,
  Message,
  ReceiveOptions,
} from "../../mailbox/mailbox.ts";
import { CollectingMailbox } from "../simple_mailboxes.ts";

/** A new, empty mailbox, and how time passes for it. */
export interface MailboxFixture {
  /** The mailbox to test. */
  readonly mailbox: Mailbox<unknown>;
  /**
   * The unit of all durations in milliseconds. Use any with a virtual clock. With real time, use a short one
   * that is longer than the pauses of a busy machine: a case fails when one call takes three units.
   */
  readonly tickMs: number;
  /** Resolves when at least `ms` milliseconds have passed by the engine's clock. */
  pass(ms: number): Promise<void>;
  /**
   * How late the engine may deliver a message whose delay or lease has ended, in milliseconds, because a timer of its
   * server makes the message visible. @default {0}
   */
  readonly lateMs?: number;
  /** Opens the same storage again, as another process would. The case closes it. */
  sibling?(): Mailbox<unknown> | Promise<Mailbox<unknown>>;
  /** Stores a body without the codec. */
  sendRaw?(text: string): Promise<unknown>;
  /** The largest body in bytes, for mailboxes that store bodies as JSON. */
  readonly maxBodyBytes?: number;
  /**
   * Parts that the mailbox has only to report that its engine does not support them, and `headers` when its
   * messages have none.
   */
  readonly lacks?: readonly MailboxPart[];
  /** Removes what the fixture created. The mailbox is closed before. */
  close?(): Promise<void>;
}

/**
 * Creates a fixture. Pass the options to the mailbox: a case sets where replies and the log go, and the codec
 * of some mailboxes.
 */
export type MakeMailbox = (
  options: Required<Pick<MailboxOptions, "resolver" | "log">> & Pick<MailboxOptions, "codec">,
) => MailboxFixture | Promise<MailboxFixture>;

/** An optional part of a mailbox or of its fixture. */
export type MailboxPart =
  | "sibling"
  | "sendRaw"
  | "maxBodyBytes"
  | "deadLetters"
  | "acknowledgeMany"
  | "releaseMany"
  | "extendMany"
  | "peek"
  | "queues"
  | "queue"
  | "headers";

/** The subject of a case. */
export type MailboxTopic =
  | "delivery"
  | "visibility"
  | "receipt handles"
  | "release and nack"
  | "long poll"
  | "abort"
  | "close"
  | "bounds"
  | "replies"
  | "concurrency"
  | "dead letters"
  | "checkpoints"
  | "ids and delays"
  | "headers"
  | "count, peek and purge"
  | "keys"
  | "priorities"
  | "expiry"
  | "deduplication"
  | "stats"
  | "get and cancel"
  | "deliver now"
  | "pause"
  | "rate limit"
  | "requests"
  | "codecs";

/** A named test case for any test runner. */
export interface MailboxCase {
  /** The subject of the case. */
  readonly topic: MailboxTopic;
  /** The behaviour that it tests, as a sentence. */
  readonly name: string;
  /** The capabilities that the case tests. It is skipped for an engine without them. */
  readonly requires?: readonly (keyof Capabilities)[];
  /** The parts of the mailbox and its fixture that the case uses. It is skipped without them. */
  readonly needs?: readonly MailboxPart[];
  /**
   * Resolves when the case passes, and rejects when it fails. Calls `skip` with the reason, and tests
   * nothing, when the mailbox lacks what the case requires.
   */
  readonly run: (make: MakeMailbox, skip?: (why: string) => void) => Promise<void>;
}

/** Returns why a case is skipped for a mailbox that lacks some capabilities and parts; otherwise undefined. */
export function skipReason(
  { requires = [], needs = [] }: Pick<MailboxCase, "requires" | "needs">,
  lacks: (what: keyof Capabilities | MailboxPart) => boolean,
): string | undefined {
  const capability = requires.find(lacks);
  if (capability !== undefined) return `the engine has no ${capability}`;
  const part = needs.find(lacks);
  return part && `there is no ${part}`;
}

/** What a case works with: the fixture, and the steps that cases share. */
export class Setup {
  /** Has all optional members: a case is skipped when it needs a missing one. */
  readonly mailbox: Required<Mailbox<unknown>>;
  readonly maxBodyBytes: number;
  /** The reply mailbox, which the mailbox finds by its name. */
  readonly replies: CollectingMailbox<unknown>;
  readonly #fixture: MailboxFixture;
  readonly #siblings: Mailbox<unknown>[] = [];

  private constructor(fixture: MailboxFixture, replies: CollectingMailbox<unknown>) {
    this.mailbox = fixture.mailbox as Required<Mailbox<unknown>>;
    this.maxBodyBytes = fixture.maxBodyBytes ?? Infinity;
    this.replies = replies;
    this.#fixture = fixture;
  }

  static async make(
    make: MakeMailbox,
    options: Pick<MailboxOptions, "codec"> = {},
  ): Promise<Setup> {
    const replies = new CollectingMailbox<unknown>("replies");
    const resolver = (name: string) => name === replies.name ? replies : undefined;
    return new Setup(await make({ log: silentLog, resolver, ...options }), replies);
  }

  /** Returns whether the mailbox or its fixture lacks this. */
  lacks(what: keyof Capabilities | MailboxPart): boolean {
    const { mailbox, lacks = [] } = this.#fixture;
    if (what in mailbox.capabilities) return !mailbox.capabilities[what as keyof Capabilities];
    if (lacks.includes(what as MailboxPart)) return true;
    // Only messages have headers, and there are none yet.
    return what !== "headers" && !(what in this.#fixture) && !(what in mailbox);
  }

  async close(): Promise<void> {
    for (const sibling of this.#siblings) await sibling.close();
    await this.mailbox.close();
    await this.#fixture.close?.();
  }

  /** Returns a number of ticks in milliseconds. */
  ms(ticks: number): number {
    return this.#fixture.tickMs * ticks;
  }

  async pass(ticks: number): Promise<void> {
    await this.#fixture.pass(this.ms(ticks));
  }

  async sibling(): Promise<Mailbox<unknown>> {
    const sibling = await this.#fixture.sibling!();
    this.#siblings.push(sibling);
    return sibling;
  }

  async sendRaw(text: string): Promise<void> {
    await this.#fixture.sendRaw!(text);
  }

  /** Receives one message. Fails when none is visible. */
  async receiveOne<T>(
    options: ReceiveOptions = {},
    mailbox: Mailbox<T> = this.mailbox as unknown as Mailbox<T>,
  ): Promise<Message<T>> {
    const waitTimeMs = this.#fixture.lateMs ?? 0;
    const [message] = await mailbox.receive({ waitTimeMs, ...options });
    assert(message !== undefined, "a message is visible");
    return message;
  }

  /** Receives up to `max` messages, acknowledges them and returns their bodies. */
  async receiveAndAcknowledge(
    max = 1_000,
    mailbox: Mailbox<unknown> = this.mailbox,
  ): Promise<unknown[]> {
    const messages = await mailbox.receive({ maxMessages: max });
    for (const message of messages) await message.acknowledge();
    return messages.map(({ body }) => body);
  }

  async assertNoneVisible(mailbox: Mailbox<unknown> = this.mailbox): Promise<void> {
    assertEquals(await mailbox.receive({ maxMessages: 10 }), [], "no message is visible");
  }

  /** Waits for a promise that settles soon. Gives up in the end, so that a case fails and does not hang. */
  async soon<T>(promise: Promise<T>): Promise<T> {
    let open = true;
    const close = () => void (open = false);
    promise.then(close, close);
    for (let round = 0; open && round < 300; round++) await this.pass(round < 5 ? 0 : 0.1);
    assert(!open, "the promise settles soon");
    return await promise;
  }

  /** Starts a receive that waits. */
  async waiting(
    options: ReceiveOptions = {},
    mailbox: Mailbox<unknown> = this.mailbox,
  ): Promise<{ readonly received: Promise<Message<unknown>[]> }> {
    let open = true;
    const received = mailbox.receive({ waitTimeMs: this.ms(1_000), ...options });
    const close = () => void (open = false);
    received.then(close, close);
    await this.pass(0.5);
    assert(open, "a receive from an empty mailbox waits");
    return { received };
  }
}

/** Asserts that `act` rejects with this error. Compares names: a program may have two copies of the package. */
export async function refused(name: MailboxErrorName, act: () => Promise<unknown>): Promise<void> {
  const error = await assertRejects(act);
  assert(isMailboxError(error, name), `expected ${name}, got ${error}`);
}

/** Asserts that `act` rejects because no mailbox accepts one of its values. */
export async function invalid(act: () => Promise<unknown>): Promise<void> {
  const error = await assertRejects(act);
  assert(
    error instanceof TypeError || error instanceof RangeError,
    `expected a TypeError or a RangeError, got ${error}`,
  );
}

/** Makes the cases of a topic that have the same requirements. */
export function topic(
  topic: MailboxTopic,
  gate: Pick<MailboxCase, "requires" | "needs"> = {},
  options: Pick<MailboxOptions, "codec"> = {},
): (name: string, check: (setup: Setup) => Promise<void>) => MailboxCase {
  return (name, check) => ({
    topic,
    name,
    ...gate,
    async run(make, skip) {
      const setup = await Setup.make(make, options);
      try {
        const why = skipReason(gate, (what) => setup.lacks(what));
        if (why === undefined) await check(setup);
        else skip?.(why);
      } finally {
        await setup.close();
      }
    },
  });
}
