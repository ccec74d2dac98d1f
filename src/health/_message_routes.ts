import type { Context, Hono as HonoApp, HonoRequest, MiddlewareHandler } from "hono";
import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import { errorText } from "../errors.ts";
import type { Log } from "../log.ts";
import { redrive } from "../loops/redrive.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { DeadLetter, Mailbox, MessageState } from "../mailbox/mailbox.ts";
import { letterDetail, letterOf, messageDetail, readPage, searchOf } from "./_message_page.ts";
import { idsOf, Refusal, requiredIdsOf, wordOf } from "./_requests.ts";
import type { WatchedMailbox } from "./health_options.ts";

/** The most messages that one request redrives, so that it ends. */
const MAX_REDRIVEN = 1_000;

const STATES: readonly MessageState[] = ["waiting", "delayed", "inFlight"];

const NO_STORE = { "cache-control": "no-store" };

/** What the routes need. */
export interface MessageRoutesConfig {
  /** Returns the mailbox with this name. */
  readonly mailbox: (name: string) => WatchedMailbox | undefined;
  /** How long each call of an engine may take. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** A mailbox of the status. It may lack all members but the name and the count. */
type Known = WatchedMailbox & Partial<Mailbox<unknown>>;

type Answer = (mailbox: Known, request: HonoRequest) => Promise<object>;

/** Adds the routes that read and change messages and dead letters. */
export function addMessageRoutes(
  app: HonoApp,
  auth: MiddlewareHandler,
  config: MessageRoutesConfig,
): void {
  const routes = new MessageRoutes(config);
  const about = (answer: Answer) => [auth, answering(config, answer)] as const;
  app.get("/messages", ...about(routes.list));
  app.get("/messages/:id{.+}", ...about(routes.get)); // an id may contain slashes
  app.post("/messages/cancel", ...about(routes.cancel));
  app.post("/messages/deliver-now", ...about(routes.deliverNow));
  app.get("/dead-letters", ...about(routes.listLetters));
  app.post("/dead-letters/delete", ...about(routes.deleteLetters));
  app.post("/redrive", ...about(routes.redrive));
}

class MessageRoutes {
  readonly #timeoutMs: number;
  readonly #clock: Clock;

  constructor({ timeoutMs, clock }: MessageRoutesConfig) {
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  readonly list: Answer = async (mailbox, request) => {
    const { name } = mailbox;
    const state = wordOf(request, "state", STATES);
    const search = searchOf(request);
    const isFiltered = state !== undefined || search !== undefined;
    const { found, next } = await readPage(request, {
      read: (max, skip) => this.#peek(name, mailbox, max, skip),
      matches: !isFiltered ? undefined : (message) => {
        return (state ?? message.state) === message.state && (search?.(message) ?? true);
      },
      timeoutMs: this.#timeoutMs,
      clock: this.#clock,
    });
    return { mailbox: name, messages: found.map(messageDetail), next };
  };

  readonly get: Answer = async (mailbox, request) => {
    const id = request.param("id") ?? "";
    const found = await this.#within(mailbox.name, withLookup(mailbox.name, mailbox).get(id));
    if (found !== undefined) return messageDetail(found);
    throw new Refusal(404, `mailbox "${mailbox.name}" has no message "${id}"`);
  };

  readonly cancel: Answer = async (mailbox, request) => {
    const known = withLookup(mailbox.name, mailbox);
    return await this.#each(mailbox.name, request, (id) => known.cancel(id));
  };

  readonly deliverNow: Answer = async (mailbox, request) => {
    const known = withLookup(mailbox.name, mailbox);
    return await this.#each(mailbox.name, request, (id) => known.deliverNow(id));
  };

  readonly listLetters: Answer = async (mailbox, request) => {
    const { name } = mailbox;
    const deadLetters = lettersOf(mailbox);
    const reason = request.query("reason") || undefined;
    const search = searchOf(request);
    const isFiltered = reason !== undefined || search !== undefined;
    const { found, next } = await readPage(request, {
      read: async (max, skip) => (await this.#peek(name, deadLetters, max, skip)).map(letterOf),
      matches: !isFiltered ? undefined : (letter) => {
        return (reason ?? letter.reason) === letter.reason && (search?.(letter) ?? true);
      },
      timeoutMs: this.#timeoutMs,
      clock: this.#clock,
    });
    return { mailbox: name, letters: found.map(letterDetail), next };
  };

  readonly deleteLetters: Answer = async (mailbox, request) => {
    const deadLetters = withLookup(mailbox.name, lettersOf(mailbox));
    return await this.#each(mailbox.name, request, (id) => deadLetters.cancel(id));
  };

  readonly redrive: Answer = async (mailbox, request) => {
    const { name } = mailbox;
    const deadLetters = lettersOf(mailbox);
    const ids = await idsOf(request);
    // Only as many as there are now: a message that fails again must not be redriven without an end.
    const count = ids?.length ?? await this.#within(name, deadLetters.approximateCount());
    const maxMessages = Math.min(count, MAX_REDRIVEN);
    if (maxMessages === 0) return { mailbox: name, redriven: 0 };
    const done: string[] = [];
    const redriving = redrive(mailbox as Mailbox<unknown>, {
      ...(ids && { ids }),
      maxMessages,
      onRedriven: ({ id }) => void done.push(id),
      clock: this.#clock,
    });
    // A redrive of many letters takes time. One without progress has lost its engine.
    for (let before = -1; !await settlesWithin(redriving, this.#timeoutMs, this.#clock);) {
      if (before === done.length) throw this.#noAnswer(name, { redriven: before });
      before = done.length;
    }
    const missing = ids?.filter((id) => !done.includes(id));
    return { mailbox: name, redriven: await redriving, ...(missing && { missing }) };
  };

  async #peek<T>(name: string, mailbox: Partial<Mailbox<T>>, max: number, skip: number) {
    if (mailbox.peek !== undefined) return await this.#within(name, mailbox.peek(max, { skip }));
    throw new Refusal(409, `the engine of mailbox "${name}" cannot list its messages`);
  }

  /** Changes the messages with the ids of a request. Returns the ids by whether `change` found them. */
  async #each(
    name: string,
    request: HonoRequest,
    change: (id: string) => Promise<boolean>,
  ): Promise<object> {
    const done: string[] = [];
    const missing: string[] = [];
    const changes = (await requiredIdsOf(request)).map(async (id) => {
      (await change(id) ? done : missing).push(id);
    });
    await this.#within(name, Promise.all(changes), { done, missing });
    return { done, missing };
  }

  /** Returns the answer of an engine. Throws when it takes too long. */
  async #within<T>(name: string, call: Promise<T>, done?: object): Promise<T> {
    if (await settlesWithin(call, this.#timeoutMs, this.#clock)) return await call;
    throw this.#noAnswer(name, done);
  }

  #noAnswer(name: string, done?: object): Refusal {
    const text = `mailbox "${name}" did not answer within ${this.#timeoutMs} ms; try again`;
    return new Refusal(503, text, done);
  }
}

/** Returns a handler that finds the mailbox of a request, and answers errors as `{ error }`. */
function answering({ mailbox: find, log }: MessageRoutesConfig, answer: Answer) {
  return async (context: Context): Promise<Response> => {
    const { req } = context;
    const name = req.query("mailbox");
    try {
      if (name === undefined) throw new Refusal(400, "name a mailbox: ?mailbox=…");
      const mailbox = find(name);
      if (mailbox === undefined) throw new Refusal(404, `there is no mailbox "${name}"`);
      return context.json(await answer(mailbox as Known, req), 200, NO_STORE);
    } catch (error) {
      if (error instanceof Refusal) {
        return context.json({ error: error.message, ...error.done }, error.status, NO_STORE);
      }
      log.error("request failed", { path: req.path, mailbox: name, error });
      const status = isMailboxError(error, "InvalidParameterError") ? 409 : 503;
      return context.json({ error: errorText(error) }, status, NO_STORE);
    }
  };
}

/** Returns the mailbox if its engine finds messages by id. */
function withLookup<T>(name: string, mailbox: Partial<Mailbox<T>>): Mailbox<T> {
  if (mailbox.capabilities?.lookup) return mailbox as Mailbox<T>;
  throw new Refusal(409, `the engine of mailbox "${name}" cannot find messages by id`);
}

function lettersOf({ name, deadLetters, send }: Known): Mailbox<DeadLetter<unknown>> {
  if (deadLetters !== undefined && send !== undefined) return deadLetters;
  throw new Refusal(404, `mailbox "${name}" has no dead letters`);
}
