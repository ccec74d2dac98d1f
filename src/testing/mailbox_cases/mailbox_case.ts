import type { Capabilities, Mailbox } from "../../mailbox/mailbox.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";

/** A fresh and empty mailbox, and how time passes for it. */
export interface MailboxFixture {
  /** What the case is about. */
  readonly mailbox: Mailbox<unknown>;
  /**
   * The unit of all durations. A clock of its own takes any; real time takes one that is short, and
   * still longer than the pauses a busy machine makes: a case fails when one takes three of them.
   */
  readonly tickMs: number;
  /** Resolves when at least `ms` have passed by the engine's clock. */
  pass(ms: number): Promise<void>;
  /** Opens the same storage once more, as another process would. The case closes it. */
  sibling?(): Mailbox<unknown> | Promise<Mailbox<unknown>>;
  /** Stores a body past the codec, whatever it is. */
  sendRaw?(text: string): Promise<unknown>;
  /** How many bytes a body may have, where bodies are stored as JSON. */
  readonly maxBodyBytes?: number;
  /**
   * Parts that the mailbox has only to say that its engine cannot do it, and `trace` where its messages
   * carry none.
   */
  readonly lacks?: readonly MailboxPart[];
  /** Takes away what the fixture has made; the mailbox is closed by then. */
  close?(): Promise<void>;
}

/** Makes a fixture. The options go to the mailbox: cases choose where replies and the log go. */
export type MakeMailbox = (
  options: Required<Pick<MailboxOptions, "resolver" | "log">>,
) => MailboxFixture | Promise<MailboxFixture>;

/** What a mailbox or its fixture may leave out. */
export type MailboxPart =
  | "sibling"
  | "sendRaw"
  | "maxBodyBytes"
  | "deadLetters"
  | "acknowledgeMany"
  | "releaseMany"
  | "extendMany"
  | "peek"
  | "headers";

/** What the cases are about. */
export type MailboxTopic =
  | "delivery"
  | "visibility"
  | "receipts"
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
  | "count, peek and purge";

/** One named case; any test runner can host it. */
export interface MailboxCase {
  /** What it belongs to. */
  readonly topic: MailboxTopic;
  /** What it shows, as a sentence. */
  readonly name: string;
  /** The case holds only for engines that can do this. */
  readonly requires?: readonly (keyof Capabilities)[];
  /** The case needs these parts of the mailbox and its fixture. */
  readonly needs?: readonly MailboxPart[];
  /**
   * Resolves when the case holds, rejects when it does not. Where the mailbox lacks what the case
   * requires there is nothing to prove: {@linkcode skippedMailboxCases} tells where that is so.
   */
  readonly run: (make: MakeMailbox) => Promise<void>;
}
