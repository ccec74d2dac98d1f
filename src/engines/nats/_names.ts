import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";

/** The names of a mailbox on the server. */
export interface Names {
  /** The stream of the messages. */
  readonly stream: string;
  /** Each message has a subject of its own; they begin with this. */
  readonly subjects: string;
  /** The stream of what is noted about messages. */
  readonly notes: string;
  /** Each note has a subject of its own; they begin with this. */
  readonly noteSubjects: string;
}

/** What streams may be called at the longest, minus the longest of our prefixes. */
const LONGEST = 230;

/** What mailboxes may have in their names and streams may not. `_` marks it, and so needs a mark too. */
const MARKED: Readonly<Record<string, string>> = {
  "_": "__",
  ".": "_d",
  ":": "_c",
  "@": "_a",
  "/": "_s",
};

/** The names of a mailbox. No two mailboxes have one in common. */
export function namesOf(mailbox: string): Names {
  const name = mailbox.replace(/[^A-Za-z0-9-]/g, (character) => MARKED[character] ?? character);
  if (name.length > LONGEST) {
    throw new InvalidParameterError(
      `Invalid mailbox name: on NATS ${
        show(mailbox)
      } has ${name.length} characters, because those ` +
        `other than letters, digits and - count twice, and at most ${LONGEST} fit; choose a shorter one`,
    );
  }
  return {
    stream: `lastcall_${name}`,
    subjects: `lastcall.messages.${name}.`,
    notes: `lastcall-notes_${name}`,
    noteSubjects: `lastcall.notes.${name}.`,
  };
}

/** What can stand in a subject as it is. */
const PLAIN = /^[\w-]{1,200}$/;

/** The last part of a message's subject. The server keeps one message for each subject. */
export async function tokenOf(id: string, chosen: boolean): Promise<string> {
  if (PLAIN.test(id)) return `${chosen ? "c" : "g"}-${id}`;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(id));
  const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
  return `${chosen ? "ch" : "gh"}-${hex.join("")}`;
}

/** True for an id that needs no digest, so that nobody waits for one. */
export function isPlain(id: string): boolean {
  return PLAIN.test(id);
}
