import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";

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
const MARKED: Readonly<Record<string, string>> = {
  "_": "__",
  ".": "_d",
  ":": "_c",
  "@": "_a",
  "/": "_s",
};

/** Returns the names of a mailbox. Different mailboxes never share a name. */
export function namesOf(mailbox: string): Names {
  const name = mailbox.replace(/[^A-Za-z0-9-]/g, (character) => MARKED[character] ?? character);
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

/** Returns the last part of a message's subject. The server stores one message per subject. */
export async function tokenOf(id: string, chosen: boolean): Promise<string> {
  if (PLAIN.test(id)) return `${chosen ? "c" : "g"}-${id}`;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(id));
  const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
  return `${chosen ? "ch" : "gh"}-${hex.join("")}`;
}

/** Returns true for an id that needs no digest, which would be asynchronous. */
export function isPlain(id: string): boolean {
  return PLAIN.test(id);
}
