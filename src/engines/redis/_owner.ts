import { deferred, settlesWithin } from "../../_promises.ts";
import { type OwnerRegistry, OwnerWatch } from "../_kit/owners.ts";
import type { RedisLink, RunScript } from "./redis_link.ts";
import { ABSENT, EXPIRE_LEASES, REGISTER, UNREGISTER } from "./scripts/owners.ts";
import { ownerChannelsOf } from "./scripts/script.ts";

/** How long an owner may take to reconnect. */
const GRACE_MS = 2_000;

/** How long the first receive waits for the registration. */
const START_TIMEOUT_MS = 1_000;

/** How long a close waits for the end of the registration: a frozen server must not delay a shutdown. */
const CLOSE_TIMEOUT_MS = 1_000;

const CANNOT_SUBSCRIBE =
  "cannot subscribe to a Redis channel by which others see that this worker is alive; until it works again, " +
  "its messages are delivered again only when their visibility timeout passes, should it die. Check that the " +
  "user may SUBSCRIBE to it";

const NOT_DETECTED =
  "workers that die are not detected; their messages are delivered again when their visibility timeout passes";

/** What an {@linkcode Owner} needs of its engine. */
export interface OwnerOptions {
  /** The name of the queue. */
  readonly queue: string;
  readonly link: RedisLink;
  readonly run: RunScript;
  /** Called with each payload on the channel of this process. */
  onNotice(text: string): void;
}

/**
 * The mailbox as an owner of leases: `new ─▶ registered ⇄ not detected ─▶ closed`. It tells others that its
 * process is alive, and finds owners whose processes have died. See `scripts/owners.ts`.
 *
 * It registers with the first receive, when its subscription is confirmed, and again with each new
 * subscription: the server may have been restarted, or others may have taken this process for dead.
 */
export class Owner implements OwnerRegistry<string> {
  /** The receive ids begin with it. */
  readonly id: string;
  readonly #options: OwnerOptions;
  readonly #watch: OwnerWatch<string>;
  /** How the names of the channels of owners begin. */
  readonly #channels: string;
  readonly #started = deferred<void>();
  /** Set while the first receives wait. */
  #starting: Promise<unknown> | undefined;
  /** The last registration, or the end of one. */
  #registering: Promise<void> = Promise.resolve();
  #stopListening: (() => void) | undefined;
  #isSubscribed = false;
  /** The last answer of the server: "" when it can tell that this process is alive. */
  #obstacle: string | undefined;
  #closed = false;

  constructor(options: OwnerOptions) {
    const { queue, link: { options: { clock, log, random } } } = options;
    this.#options = options;
    this.id = random.id().slice(0, 13);
    this.#channels = ownerChannelsOf(queue);
    this.#watch = new OwnerWatch(this, { queue, clock, log, graceMs: GRACE_MS });
  }

  /** True when this process and the others are watched. */
  get isDetected(): boolean {
    return this.#obstacle === "";
  }

  /** True if the server can publish to this process and can tell whether it did. */
  get isReachable(): boolean {
    return this.isDetected && this.#isSubscribed && !this.#closed;
  }

  /**
   * Registers before the first receive: its messages may end the process at once. Returns undefined when there is
   * nothing to wait for.
   */
  start(): Promise<unknown> | undefined {
    if (this.#stopListening !== undefined || this.#closed) return this.#starting;
    const { link } = this.#options;
    if (link.isCluster) {
      this.#stopListening = () => {};
      this.#meet("the mailbox is on a cluster");
      return undefined;
    }
    const listener = (text?: string) => {
      if (text === undefined) this.#onSubscription();
      else this.#options.onNotice(text);
    };
    this.#stopListening = link.channels.listen(this.#channel, listener, CANNOT_SUBSCRIBE);
    const started = settlesWithin(this.#started.promise, START_TIMEOUT_MS, link.options.clock);
    return this.#starting = started.finally(() => this.#starting = undefined);
  }

  /** Looks for owners that have died, if a look is due. Returns the time until the next look in milliseconds. */
  look(): number {
    if (!this.isDetected) {
      if (this.#obstacle === undefined && this.#isSubscribed) this.#register();
      return Infinity;
    }
    this.#watch.look();
    return this.#watch.nextLookMs;
  }

  async absent(): Promise<readonly string[]> {
    const { run } = this.#options;
    const values = [this.id, this.#channels];
    const reply = await run("look for workers that have died", ABSENT, values);
    const [, isRegistered, owners] = reply as [number, number, string[]];
    if (isRegistered === 0 && this.#isSubscribed) this.#register();
    return owners.filter((owner) => owner !== this.id);
  }

  async expire(owner: string): Promise<number> {
    const { run } = this.#options;
    let count = 0;
    let cursor = "0";
    do {
      const values = [owner, `${this.#channels}${owner}`, cursor];
      const reply = await run("release the messages of a worker that died", EXPIRE_LEASES, values);
      const [, next, ready] = reply as [number, string, number];
      count += ready;
      cursor = next;
    } while (cursor !== "0");
    return count;
  }

  /**
   * Ends the watch and the registration. Leases that are left expire by time. A frozen server delays it by one
   * second at the most, and without a connection it does not try.
   */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#started.resolve();
    void this.#watch.stop();
    this.#stopListening?.();
    if (!this.#isSubscribed) return;
    this.#unregister();
    await settlesWithin(this.#registering, CLOSE_TIMEOUT_MS, this.#options.link.options.clock);
  }

  get #channel(): string {
    return `${this.#channels}${this.id}`;
  }

  /** Called whenever the subscription may have changed. */
  #onSubscription(): void {
    if (this.#closed) return;
    const before = this.#isSubscribed;
    const state = this.#options.link.channels.stateOf(this.#channel);
    this.#isSubscribed = state === "subscribed";
    if (this.#isSubscribed && !before) this.#register();
    if (state === "failed") {
      // The channels have logged it. Without a subscription, a registered process would be taken for dead.
      if (this.#obstacle === "") this.#unregister();
      this.#obstacle = undefined;
      this.#started.resolve();
    }
  }

  /** Registers, after a registration that is under way. If it fails, the next look tries again. */
  #register(): void {
    this.#registering = this.#registering.then(() =>
      this.#closed ? undefined : this.#tryRegister()
    );
  }

  async #tryRegister(): Promise<void> {
    const { run, link } = this.#options;
    try {
      const reply = await run("register a worker", REGISTER, [this.id, this.#channel]);
      this.#meet(reply[1] as string);
    } catch (error) {
      this.#obstacle = undefined;
      link.options.log.debug("cannot register a worker", { error });
    } finally {
      this.#started.resolve();
    }
  }

  #unregister(): void {
    this.#registering = this.#registering.then(() => this.#tryUnregister());
  }

  async #tryUnregister(): Promise<void> {
    const { run, link } = this.#options;
    try {
      await run("end the registration of a worker", UNREGISTER, [this.id]);
    } catch (error) {
      link.options.log.debug("cannot end the registration of a worker", { error });
    }
  }

  #meet(obstacle: string): void {
    if (obstacle === this.#obstacle) return;
    this.#obstacle = obstacle;
    if (obstacle === "") return;
    const { queue, link: { isCluster, options: { log } } } = this.#options;
    const fields = { mailbox: queue, reason: obstacle };
    if (isCluster) log.info(NOT_DETECTED, fields); // there is nothing to repair
    else log.warn(NOT_DETECTED, fields);
  }
}
