import { show } from "../../_checks.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { Random } from "../../random.ts";
import { Calls } from "./_calls.ts";
import { JetStream } from "./_jetstream.ts";
import type { NatsConnection, SharedConnection } from "./nats_connection.ts";

/** What all parts of the engine need to serve one queue. The connection must be open. */
export class Queue {
  readonly mailbox: string;
  readonly names: Names;
  readonly connection: SharedConnection;
  readonly client: NatsConnection;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly calls: Calls;
  readonly jetStream: JetStream;
  /** The receivers that wait for messages. */
  readonly listeners: Set<() => void> = new Set();

  constructor(mailbox: string, connection: SharedConnection) {
    this.mailbox = mailbox;
    this.names = namesOf(mailbox);
    this.connection = connection;
    this.client = connection.client;
    ({ clock: this.clock, random: this.random, log: this.log } = connection.options);
    this.calls = new Calls(connection);
    this.jetStream = new JetStream(this.calls);
  }

  /** Returns the name of a call for errors: `send ("orders")`. */
  what(verb: string): string {
    return `${verb} ("${this.mailbox}")`;
  }

  /** Tells waiting receivers to check for messages. */
  wake(): void {
    for (const listener of this.listeners) listener();
  }
}

/** The names that a mailbox uses on the server. */
export interface Names {
  /** The stream of the messages. */
  readonly stream: string;
  /** The prefix of message subjects. Each message has its own subject. */
  readonly subjects: string;
  /** The stream of the notes. */
  readonly notes: string;
  /** The prefix of note subjects. Each note has its own subject. */
  readonly noteSubjects: string;
}

/** The longest stream name that servers accept, without our longest prefix. */
const LONGEST = 230;

/** Escapes for characters that mailbox names may have and stream names may not. `_` starts an escape. */
const ESCAPES: Readonly<Record<string, string>> = {
  "_": "__",
  ".": "_d",
  ":": "_c",
  "@": "_a",
  "/": "_s",
};

/** Returns the names of a mailbox. Different mailboxes never share a name. */
export function namesOf(mailbox: string): Names {
  const name = mailbox.replace(/[^A-Za-z0-9-]/g, (character) => ESCAPES[character] ?? character);
  if (name.length > LONGEST) {
    throw new InvalidParameterError(
      `Invalid mailbox name: on NATS ${
        show(mailbox)
      } has ${name.length} characters, because those ` +
        `other than letters, digits and - count twice, and at most ${LONGEST} are allowed; choose a shorter name`,
    );
  }
  return {
    stream: `lastcall_${name}`,
    subjects: `lastcall.messages.${name}.`,
    notes: `lastcall-notes_${name}`,
    noteSubjects: `lastcall.notes.${name}.`,
  };
}

/** Ids that are valid in a subject without a digest. */
const PLAIN = /^[\w-]{1,200}$/;

/**
 * Returns the last part of a message's subject. The server stores one message per subject, and thus one
 * per chosen id. Only a digest needs a promise.
 */
export function tokenOf(id: string, chosen: boolean): string | Promise<string> {
  return PLAIN.test(id) ? `${chosen ? "c" : "g"}-${id}` : digestToken(id, chosen);
}

async function digestToken(id: string, chosen: boolean): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(id));
  const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
  return `${chosen ? "ch" : "gh"}-${hex.join("")}`;
}
