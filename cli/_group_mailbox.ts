// Opens the mailbox that the group of `run` works on, also when its server is down at the start.

import {
  type Log,
  type Mailbox,
  MailboxConnectionError,
  type Resource,
  systemClock,
} from "../mod.ts";
import { parseMailboxUrl } from "../src/engines/_kit/mailbox_url.ts";
import { type CliError, toCliError } from "./_errors.ts";
import { open } from "./_mailbox.ts";

/** A mailbox, and the resource by which a group opens and closes it. */
export interface GroupMailbox {
  readonly mailbox: Mailbox<unknown>;
  readonly resource: Resource;
}

/** Options of {@linkcode openForGroup}. */
export interface GroupMailboxOptions {
  /** True to start the group and keep trying when the engine cannot be reached. */
  readonly keepTrying: boolean;
  readonly log: Log;
}

/** Opens a mailbox for a group. */
export async function openForGroup(
  url: string,
  { keepTrying, log }: GroupMailboxOptions,
): Promise<GroupMailbox> {
  try {
    const mailbox = await open(url, true, { log });
    const resource = { name: `mailbox ${mailbox.name}`, stop: () => mailbox.close() };
    return { mailbox, resource };
  } catch (error) {
    const reason = toCliError(error);
    if (!keepTrying || reason.code !== "unavailable") throw reason;
    return openLater(url, reason, log);
  }
}

/** The pause after the first failure is at most this long; each further failure doubles it. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Returns a mailbox that its resource opens when the group starts. Until then its calls are refused.
 * It tries until it succeeds or the group stops.
 */
function openLater(url: string, firstReason: CliError, log: Log): GroupMailbox {
  const name = nameOf(url);
  let reason = firstReason;
  let opened: Mailbox<unknown> | undefined;
  const refuse = () => {
    const text = `Mailbox "${name}" is not open yet: ${reason.message}`;
    return Promise.reject(new MailboxConnectionError(text, { cause: reason }));
  };
  const unopened: Partial<Mailbox<unknown>> = {
    name,
    engine: parseMailboxUrl(url).scheme,
    closed: false,
    receive: refuse,
    approximateCount: refuse,
  };
  const mailbox = new Proxy(unopened as Mailbox<unknown>, {
    get(target, key) {
      const actual = opened ?? target;
      const value = Reflect.get(actual, key);
      return typeof value === "function" ? value.bind(actual) : value;
    },
  });
  const start = async ({ signal }: { readonly signal: AbortSignal }) => {
    const aborted = new Promise<undefined>((resolve) => {
      signal.addEventListener("abort", () => resolve(undefined), { once: true });
    });
    for (let failures = 1; opened === undefined; failures++) {
      // Logs the failures 1, 2, 4, 8 and so on, so that a long outage does not fill the log.
      if (Number.isInteger(Math.log2(failures))) {
        log.warn(`could not open mailbox "${name}"; trying again`, { error: reason, failures });
      }
      const longestMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
      const pauseMs = longestMs / 2 * (1 + Math.random());
      await systemClock.sleep(pauseMs, { signal }).catch(() => {}); // rejects when the group stops
      if (signal.aborted) return;
      const opening = open(url, true, { log });
      try {
        opened = await Promise.race([opening, aborted]);
      } catch (error) {
        reason = toCliError(error);
        if (reason.code !== "unavailable") throw reason;
      }
      if (signal.aborted && opened === undefined) {
        return void opening.then((late) => late.close(), () => {});
      }
    }
  };
  return {
    mailbox,
    resource: { name: `mailbox ${name}`, start, stop: () => opened?.close() },
  };
}

/** The name that the mailbox will have once it is open. */
function nameOf(url: string): string {
  const { scheme, path, params } = parseMailboxUrl(url);
  return params.get("queue") ?? (scheme === "sqs" ? path.replace(/.*\//, "") : "default");
}
