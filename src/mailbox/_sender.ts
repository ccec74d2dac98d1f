import { checkDuration, checkInterval, MAX_VISIBILITY_MS, show } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import { systemRandom } from "../random.ts";
import { isTracing } from "../telemetry/open_telemetry.ts";
import { sending } from "../telemetry/spans.ts";
import { encodeEnvelope } from "./codec.ts";
import type { Engine, EngineTransaction, Entry, Maybe } from "./engine.ts";
import {
  checkId,
  EMPTY_ENVELOPE,
  type Envelope,
  envelopeOf,
  type EnvelopeOptions,
  type MessageHeaders,
} from "./envelope.ts";
import type { Storage } from "./_engine_message.ts";
import { InvalidParameterError } from "./errors.ts";
import {
  type Capabilities,
  MAX_DELAY_MS,
  type SendManyOptions,
  type SendOptions,
  type SendResult,
  type TransactionMailbox,
} from "./mailbox.ts";

/** The checked options of a message: the envelope, and the fields of the entry that need no encoding. */
interface Fields {
  readonly envelope: Envelope;
  readonly checkpoint: unknown;
  readonly head: Head;
}

/** An `id` of undefined is generated. */
type Head =
  & Omit<Entry<unknown>, "id" | "body" | "meta" | "checkpoint">
  & { readonly id: string | undefined };

/** The fields of a message without options. */
const PLAIN: Fields = {
  envelope: EMPTY_ENVELOPE,
  checkpoint: undefined,
  head: { id: undefined, delayMs: 0, dedup: false },
};

/** The options of a message without options. */
export const NO_OPTIONS: SendOptions<never> = Object.freeze({});

/** Returns the options of a message. */
type OptionsOf<T, R> = (body: T, index: number) => SendOptions<R>;

/**
 * Makes entries of bodies and options, and stores them. It checks all options first, then encodes all bodies,
 * then stores all entries in one call: a call that throws has stored nothing.
 */
export class Sender<T, R, B> {
  readonly #name: string;
  readonly #storage: Storage<B>;
  /** One random prefix and a counter: as unique as random ids, in a third of the memory. */
  readonly #idPrefix: string;
  #lastId = 0;

  constructor(name: string, storage: Storage<B>) {
    this.#name = name;
    this.#storage = storage;
    this.#idPrefix = `${(storage.options.random ?? systemRandom).id()}-`;
  }

  /**
   * Stores messages in the engine, or in a transaction on it. Returns no promise, and throws at once, when
   * neither the codec nor the store needs one. A synchronous transaction has no span: loading the API takes a
   * promise.
   */
  send(
    bodies: readonly T[],
    optionsOf: OptionsOf<T, R>,
    store: Pick<EngineTransaction<B>, "send" | "synchronous"> = this.#storage.engine,
  ): Maybe<SendResult[]> {
    if (bodies.length === 0) return [];
    if (!isTracing() || store.synchronous) return this.#send(bodies, optionsOf, store);
    // The messages of one call share one span, which continues the trace in the headers of the first.
    const { headers = {} } = optionsOf(bodies[0]!, 0);
    return sending(this.#name, headers, async (trace) => {
      return await this.#send(bodies, optionsOf, store, trace as MessageHeaders | undefined);
    });
  }

  #send(
    bodies: readonly T[],
    optionsOf: OptionsOf<T, R>,
    store: Pick<EngineTransaction<B>, "send">,
    trace?: MessageHeaders,
  ): Maybe<SendResult[]> {
    const fields = bodies.map((body, i) => this.#fields(optionsOf(body, i)));
    const made = bodies.map((body, i) => this.#entry(body, fields[i]!, trace));
    if (made.every(isReady)) return storeAll(store, made);
    return Promise.all(made).then((entries) => storeAll(store, entries));
  }

  /** Checks the options of a message. */
  #fields(options: SendOptions<R>): Fields {
    if (options === NO_OPTIONS) return PLAIN;
    const { id, dedupMs, checkpoint } = options;
    const envelope = envelopeOf(options as EnvelopeOptions<never>);
    const { key, priority } = envelope;
    if (key !== undefined) this.#require("keys", "key");
    if (priority !== undefined) this.#require("priorities", "priority");
    if (dedupMs !== undefined) {
      checkInterval("dedupMs", dedupMs, MAX_DELAY_MS);
      if (id === undefined) {
        throw new TypeError("Invalid dedupMs: it needs an `id`; pass the id to remember");
      }
      this.#require("dedupWindow", "dedupMs");
    }
    const head = {
      id: id === undefined ? undefined : checkId(id),
      dedup: id !== undefined,
      delayMs: this.#delayMs(options),
      dedupMs,
      key,
      priority,
    };
    return { envelope, checkpoint, head };
  }

  #newId(): string {
    return `${this.#idPrefix}${++this.#lastId}`;
  }

  #delayMs({ delayMs, deliverAt }: SendOptions<R>): number {
    if (deliverAt === undefined) return this.#checkDelay("delayMs", delayMs ?? 0);
    if (delayMs !== undefined) {
      throw new TypeError("Invalid deliverAt: pass either `deliverAt` or `delayMs`");
    }
    const at = deliverAt instanceof Date || typeof deliverAt === "number" ? +deliverAt : NaN;
    if (Number.isNaN(at)) {
      throw new TypeError(
        `Invalid deliverAt: expected a date or milliseconds since the Unix epoch, got ${
          show(deliverAt)
        }`,
      );
    }
    const now = (this.#storage.options.clock ?? systemClock).now();
    return this.#checkDelay("deliverAt", Math.max(0, at - now));
  }

  #checkDelay(name: "delayMs" | "deliverAt", delayMs: number): number {
    checkDuration(name, delayMs, MAX_DELAY_MS);
    if (delayMs > MAX_VISIBILITY_MS) this.#require("longDelays", `${name} above 12 hours`);
    return delayMs;
  }

  /** Encodes a message. Returns a promise when the codec does. */
  #entry(
    body: T,
    fields: Fields,
    trace: MessageHeaders | undefined,
  ): Maybe<Entry<B>> {
    const { codec } = this.#storage;
    const encoded = codec.encode(body);
    const checkpoint = fields.checkpoint === undefined
      ? undefined
      : codec.encode(fields.checkpoint);
    if (!(encoded instanceof Promise) && !(checkpoint instanceof Promise)) {
      return this.#complete(fields, encoded, checkpoint, trace);
    }
    return Promise.all([encoded, checkpoint])
      .then(([body, checkpoint]) => this.#complete(fields, body, checkpoint, trace));
  }

  #complete(
    { envelope, head }: Fields,
    body: B,
    checkpoint: B | undefined,
    trace: MessageHeaders | undefined,
  ): Entry<B> {
    if (checkpoint !== undefined) this.#storage.codec.checkSize?.(checkpoint);
    const meta = this.#meta(body, envelope, trace);
    // Most messages have no options, and memory may hold many of them, so their entries are small.
    if (head === PLAIN.head) return { id: this.#newId(), body, meta, delayMs: 0, dedup: false };
    const { id = this.#newId(), dedup, delayMs, dedupMs, key, priority } = head;
    return { id, body, meta, delayMs, dedup, dedupMs, key, priority, checkpoint };
  }

  /** Encodes the envelope. Omits the trace if it exceeds the size limit: the message matters more. */
  #meta(body: B, envelope: Envelope, trace: MessageHeaders | undefined): B | undefined {
    const own = this.#encodeMeta(body, envelope);
    if (trace === undefined) return own;
    try {
      return this.#encodeMeta(body, { ...envelope, headers: { ...envelope.headers, ...trace } });
    } catch {
      return own;
    }
  }

  #encodeMeta(body: B, envelope: Envelope): B | undefined {
    const { codec } = this.#storage;
    const meta = encodeEnvelope(codec, envelope, body);
    codec.checkSize?.(body, meta);
    return meta;
  }

  /** Returns the sends that run in a transaction of the caller. */
  within(store: Pick<EngineTransaction<B>, "send">): TransactionMailbox<T, R> {
    return {
      // Not async functions: a synchronous transaction function must see what they throw.
      send: (body, options = {}) => {
        const sent = this.send([body], () => options, store);
        return sent instanceof Promise ? sent.then(([it]) => it!) : Promise.resolve(sent[0]!);
      },
      sendMany: (bodies, options = {}) => {
        return Promise.resolve(this.send(bodies, optionsOfEach(options), store));
      },
    };
  }

  #require(capability: keyof Capabilities, option: string): void {
    requireCapability(this.#storage.engine, this.#name, capability, option);
  }
}

function isReady<B>(entry: Maybe<Entry<B>>): entry is Entry<B> {
  return !(entry instanceof Promise);
}

function storeAll<B>(
  store: Pick<EngineTransaction<B>, "send">,
  entries: readonly Entry<B>[],
): Maybe<SendResult[]> {
  const results = (stored: readonly boolean[]) =>
    entries.map(({ id }, i) => ({ id, stored: stored[i] === true }));
  const stored = store.send(entries);
  return stored instanceof Promise ? stored.then(results) : results(stored);
}

/** Throws when the engine cannot do what a call or an option needs. */
export function requireCapability(
  { capabilities, label, deliverNow }: Pick<
    Engine<unknown>,
    "capabilities" | "label" | "deliverNow"
  >,
  name: string,
  capability: keyof Capabilities,
  what: string,
): void {
  if (capabilities[capability]) {
    // An engine that was written before `deliverNow` has the capability and not the member.
    if (what !== "deliverNow" || deliverNow !== undefined) return;
    throw new InvalidParameterError(
      `Cannot use deliverNow on mailbox "${name}": ${label ?? "its engine"} has the capability ` +
        "`lookup`, but not the member `deliverNow`. Add the member to the engine",
    );
  }
  throw new InvalidParameterError(
    `Cannot use ${what} on mailbox "${name}": ${label ?? "its engine"} does not support it. ` +
      `\`mailbox.capabilities.${capability}\` tells in advance`,
  );
}

/** Returns the function that returns the options of each message. */
export function optionsOfEach<T, R>(options: SendManyOptions<T, R>): OptionsOf<T, R> {
  if (typeof options === "function") return options;
  for (const name of ["id", "dedupMs"] as const) {
    if ((options as SendOptions<R>)[name] === undefined) continue;
    throw new TypeError(
      `Invalid ${name}: many messages cannot share one ${name}; pass a function that returns the ` +
        "options of each body",
    );
  }
  return () => options;
}
