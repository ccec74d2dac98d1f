import { assert, assertEquals, assertRejects } from "@std/assert";
import { silentLog } from "../../log.ts";
import { isMailboxError, type MailboxErrorName } from "../../mailbox/errors.ts";
import type { Mailbox, Message, ReceiveOptions } from "../../mailbox/mailbox.ts";
import { CollectingMailbox } from "../collecting_mailbox.ts";
import type {
  MailboxCase,
  MailboxFixture,
  MailboxPart,
  MailboxTopic,
  MakeMailbox,
} from "./mailbox_case.ts";

/** What a case works with: the fixture, and the few things that all cases do. */
export class Bench {
  /** Whatever it may leave out is there: the case would not run otherwise. */
  readonly mailbox: Required<Mailbox<unknown>>;
  readonly maxBodyBytes: number;
  /** Where replies go; the mailbox finds it by its name. */
  readonly replies: CollectingMailbox<unknown>;
  readonly #fixture: MailboxFixture;
  readonly #siblings: Mailbox<unknown>[] = [];

  private constructor(fixture: MailboxFixture, replies: CollectingMailbox<unknown>) {
    this.mailbox = fixture.mailbox as Required<Mailbox<unknown>>;
    this.maxBodyBytes = fixture.maxBodyBytes ?? Infinity;
    this.replies = replies;
    this.#fixture = fixture;
  }

  static async make(make: MakeMailbox): Promise<Bench> {
    const replies = new CollectingMailbox<unknown>("replies");
    const resolver = (name: string) => name === replies.name ? replies : undefined;
    return new Bench(await make({ log: silentLog, resolver }), replies);
  }

  /** Why a case cannot be run here. */
  lacks(
    { requires = [], needs = [] }: Pick<MailboxCase, "requires" | "needs">,
  ): string | undefined {
    const { capabilities } = this.mailbox;
    const flag = requires.find((it) => !capabilities[it]);
    if (flag !== undefined) return `the engine has no ${flag}`;
    const part = needs.find((it) => this.#fixture.lacks?.includes(it) || !this.#has(it));
    return part && `there is no ${part}`;
  }

  /** Only messages have a trace, and there are none yet: it is there unless the fixture says no. */
  #has(part: MailboxPart): boolean {
    return part === "headers" || part in this.#fixture || part in this.mailbox;
  }

  async close(): Promise<void> {
    for (const sibling of this.#siblings) await sibling.close();
    await this.mailbox.close();
    await this.#fixture.close?.();
  }

  /** So many ticks, in milliseconds. */
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

  /** Takes one message, which has to be there. */
  async take<T>(
    options: ReceiveOptions = {},
    mailbox: Mailbox<T> = this.mailbox as unknown as Mailbox<T>,
  ): Promise<Message<T>> {
    const [message] = await mailbox.receive(options);
    assert(message !== undefined, "a message is there to receive");
    return message;
  }

  /** Takes up to `max` and acknowledges them. */
  async drain(max = 1_000, mailbox: Mailbox<unknown> = this.mailbox): Promise<unknown[]> {
    const messages = await mailbox.receive({ maxMessages: max });
    for (const message of messages) await message.acknowledge();
    return messages.map(({ body }) => body);
  }

  /** Nothing is visible now. */
  async hidden(mailbox: Mailbox<unknown> = this.mailbox): Promise<void> {
    assertEquals(await mailbox.receive({ maxMessages: 10 }), [], "nothing is there to receive");
  }

  /** Waits for what is about to happen. It gives up in the end, so that a case fails and not hangs. */
  async soon<T>(promise: Promise<T>): Promise<T> {
    let open = true;
    const close = () => void (open = false);
    promise.then(close, close);
    for (let round = 0; open && round < 300; round++) await this.pass(round < 5 ? 0 : 0.1);
    assert(!open, "it ended soon");
    return await promise;
  }

  /** Starts a receive and sees to it that it waits. */
  async waiting(
    options: ReceiveOptions = {},
    mailbox: Mailbox<unknown> = this.mailbox,
  ): Promise<{ readonly received: Promise<Message<unknown>[]> }> {
    let open = true;
    const received = mailbox.receive({ waitTimeMs: this.ms(1_000), ...options });
    const close = () => void (open = false);
    received.then(close, close);
    await this.pass(0.5);
    assert(open, "an empty mailbox makes a receiver wait");
    return { received };
  }
}

/** The act fails with this error, by its name, so that two copies of the package get along. */
export async function refused(name: MailboxErrorName, act: () => Promise<unknown>): Promise<void> {
  const error = await assertRejects(act);
  assert(isMailboxError(error, name), `expected ${name}, got ${error}`);
  assert(isMailboxError(error), "it is an error of a mailbox");
}

/** The act fails with an error of the runtime: the value is wrong for every mailbox. */
export async function invalid(act: () => Promise<unknown>): Promise<void> {
  const error = await assertRejects(act);
  assert(
    error instanceof TypeError || error instanceof RangeError,
    `expected a TypeError or a RangeError, got ${error}`,
  );
}

/** Makes the cases of a topic that share what they require. */
export function topic(
  topic: MailboxTopic,
  gate: Pick<MailboxCase, "requires" | "needs"> = {},
): (name: string, check: (bench: Bench) => Promise<void>) => MailboxCase {
  return (name, check) => ({
    topic,
    name,
    ...gate,
    async run(make) {
      const bench = await Bench.make(make);
      try {
        if (bench.lacks(gate) === undefined) await check(bench);
      } finally {
        await bench.close();
      }
    },
  });
}
