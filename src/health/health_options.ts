import { show } from "../_checks.ts";
import type { Clock } from "../clock.ts";
import type { Outcome } from "../lifecycle/drain_report.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import type { Log } from "../log.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { MetricSource } from "./metric_source.ts";
import type { AgentStatusLine } from "./status.ts";

/** What is asked about a group; a `LoopGroup` answers it. */
export interface Inspectable {
  /** Those it runs. */
  readonly loops: readonly Runnable[];
  /** How its runs have ended so far. */
  readonly outcomes: Readonly<Record<Outcome, number>>;
  /** How it is doing at this moment. */
  health(): HealthSnapshot;
  /** Takes no new work until `resume`; resolves when nothing is in flight. */
  drain(): Promise<void>;
  /** Takes work again. */
  resume(): void;
  /** Tells of changes as they happen, and returns the remover; without it they are told a moment later. */
  on?(kind: "phase" | "loop", listener: () => void): () => void;
}

/** A mailbox to look into. One that can do more than these two shows its dead letters too. */
export type WatchedMailbox = Pick<Mailbox<never>, "name" | "approximateCount">;

/** Where agents say what state they are in: a `Board` of `./coordination` is one. */
export interface AgentBoard {
  /** All agents that it knows; a `Board` answers it. */
  list(): Promise<readonly AgentStatusLine[]>;
}

/** Fails by throwing, rejecting, answering false, or not in time. */
export type HealthCheck = (context: { readonly signal: AbortSignal }) => unknown;

/** Options of `healthApp`. */
export interface HealthOptions {
  /** What has to hold beside the loops for the process to be ready, by name. */
  readonly checks?: Readonly<Record<string, HealthCheck>>;
  /** How long each of them, and each mailbox that is asked, may take. @default {1_000} */
  readonly checkTimeoutMs?: number;
  /**
   * Whoever has it may drain, resume, redrive and read what errors say; without it these paths do not
   * exist.
   */
  readonly token?: string;
  /** Mailboxes whose size is told by `/metrics` and `/status`, which knows those of the loops too. */
  readonly mailboxes?: readonly WatchedMailbox[];
  /** Whose agents and peers `/status` tells. */
  readonly board?: AgentBoard;
  /** Further metrics, as those of a worker pool. */
  readonly metrics?: readonly MetricSource[];
  /** What ages and time limits of checks are measured by. @default {systemClock} */
  readonly clock?: Clock;
  /** Hears of checks that failed. @default {libraryLog} */
  readonly log?: Log;
}

/** Refuses a token that is short enough to be guessed, or that no header can carry. */
export function checkToken(token: string): string {
  if (typeof token === "string" && /^[\w.~+/=-]{16,}$/.test(token)) return token;
  throw new TypeError(
    `Invalid token: expected at least 16 letters, digits or one of -._~+/=, got ${
      typeof token === "string" ? `${token.length} characters` : show(token)
    }`,
  );
}
