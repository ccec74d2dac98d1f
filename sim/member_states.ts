// The rule about members: their peers know soon that they are stopping.

import type { Link } from "./link.ts";
import { INBOX } from "./member.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Timeline } from "./timeline.ts";
import type { Broken } from "./tracked.ts";

/** Peers know within this time that a member is stopping. */
const NOTICE_MS = 1_000;

/** The states of the members on the board. */
export class MemberStates {
  readonly #scheduler: Scheduler;
  readonly #timeline: Timeline;
  readonly #broken: Broken;
  readonly #states = new Map<string, { readonly state: string; readonly since: number }>();

  constructor(scheduler: Scheduler, timeline: Timeline, broken: Broken) {
    this.#scheduler = scheduler;
    this.#timeline = timeline;
    this.#broken = broken;
  }

  /** A member has a new state on the board. */
  set(id: string, state: string): void {
    if (this.#states.get(id)?.state === state) return;
    this.#states.set(id, { state, since: this.#scheduler.now });
    this.#timeline.add("board", `${id} is ${state}`);
  }

  /** Checks a message that is sent: a sender that no fault has hit knows the state of its receiver. */
  checkSend(sender: Link, queue: string): void {
    const member = this.#states.get(queue.replace(INBOX, ""));
    if (!queue.startsWith(INBOX) || member === undefined || member.state === "running") return;
    const { since, state } = member;
    if (this.#scheduler.now - since > NOTICE_MS && sender.undisturbedSince(since)) {
      this.#broken(
        "peers are notified",
        `a message was sent to ${queue}, whose member is ${state}`,
      );
    }
  }
}
