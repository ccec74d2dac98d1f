import { show } from "../_checks.ts";
import type { Clock } from "../clock.ts";
import type { Outcome } from "../lifecycle/drain_report.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import type { Log } from "../log.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { MetricSource } from "../telemetry/metrics.ts";
import type { AgentStatusLine } from "./status.ts";

/** The part of a `LoopGroup` that the health app uses. */
export interface Inspectable {
  /** The loops of the group. */
  readonly loops: readonly Runnable[];
  /** The number of runs by their outcome. */
  readonly outcomes: Readonly<Record<Outcome, number>>;
  /** Returns the current health of the group. */
  health(): HealthSnapshot;
  /** Takes no new work until `resume`. Resolves when no work is in flight. */
  pause(): Promise<void>;
  /** Takes work again after `pause`. */
  resume(): void;
  /**
   * Adds a listener and returns its remover. Without this, events report changes up to a second later, and
   * `/history` is empty.
   */
  on?(kind: "phase" | "loop", listener: () => void): () => void;
}

/** A mailbox whose counts are reported. A complete `Mailbox` also reports its dead letters. */
export type WatchedMailbox =
  & Pick<Mailbox<never>, "name" | "approximateCount">
  & Partial<Pick<Mailbox<never>, "stats">>;

/** An agent on a board. */
export interface HealthMember extends AgentStatusLine {
  /** What it has published. `healthUrl` is the address of its health app. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

/** A list of agents and their states, such as a `Board` of `./coordination`. */
export interface AgentBoard {
  /** Returns all agents. */
  list(): Promise<readonly HealthMember[]>;
}

/** A health check. It fails by throwing, rejecting, returning false or timing out. */
export type HealthCheck = (context: { readonly signal: AbortSignal }) => unknown;

/** Options of `healthApp`. */
export interface HealthOptions {
  /** Further readiness checks, by name. */
  readonly checks?: Readonly<Record<string, HealthCheck>>;
  /** How long each check and each mailbox query may take. @default {1_000} */
  readonly checkTimeoutMs?: number;
  /**
   * The bearer token for pause and resume, and for messages and dead letters with their bodies. Without it
   * these paths do not exist.
   */
  readonly token?: string;
  /** Mailboxes that `/metrics` and `/status` report besides those of the loops. */
  readonly mailboxes?: readonly WatchedMailbox[];
  /** The name of this process in the status. @default {the host name} */
  readonly name?: string;
  /** The version of the application in the status. */
  readonly version?: string;
  /**
   * The addresses of the health apps of other processes, whose state `/status` reports: `http` or `https` URLs,
   * or a function that returns them. It may name this process too. At most 50 are asked, at most every 2 s,
   * while clients read the status.
   */
  readonly replicas?: readonly string[] | (() => readonly string[] | Promise<readonly string[]>);
  /**
   * The board whose agents `/status` reports. The `healthUrl` in the metadata of an agent is the address of a
   * replica.
   */
  readonly board?: AgentBoard;
  /** Further metrics, such as those of a worker pool. */
  readonly metrics?: readonly MetricSource[];
  /** The source of time and timers. @default {systemClock} */
  readonly clock?: Clock;
  /** Where failed checks are logged. @default {libraryLog} */
  readonly log?: Log;
}

/** Throws for a token that is too short or that a header cannot contain. */
export function checkToken(token: string): string {
  if (typeof token === "string" && /^(?=.{16})[\w.~+/-]+=*$/.test(token)) return token;
  throw new TypeError(
    `Invalid token: expected at least 16 letters, digits or one of -._~+/, with = only at the end, got ${
      typeof token === "string" ? `${token.length} characters` : show(token)
    }`,
  );
}
