// The command line of `npm run chaos`.

import { parseArgs } from "node:util";
import { type ChaosSite, loadSite, SITE_NAMES } from "./sites.ts";

/**
 * The faults: a worker gets SIGTERM or SIGKILL, or is suspended; the server of the engine is killed and
 * restarted, or frozen; the queue is paused.
 */
export const FAULTS = ["term", "kill", "suspend", "restart", "freeze", "pause"] as const;
export type FaultKind = (typeof FAULTS)[number];

/** Returns true for the faults that need a server. */
export function isServerFault(kind: FaultKind): boolean {
  return kind === "restart" || kind === "freeze";
}

/** The options of one run. */
export interface ChaosOptions {
  /** The name of a site. */
  readonly engine: string;
  /** How many messages the run sends, spread over its time. */
  readonly messages: number;
  /** How long the run sends messages and injects faults. The rest is handled without faults. */
  readonly seconds: number;
  readonly workers: number;
  readonly faults: readonly FaultKind[];
  /** The same seed has the same schedule of faults. */
  readonly seed: number;
  readonly faultsPerSecond: number;
  /** The number of keys; 0 for messages without keys. */
  readonly keys: number;
  /** The share of messages that are cancelled a moment after they were sent. */
  readonly cancels: number;
  /**
   * True for the default visibility timeout of 300 s, without messages that are received ahead: the messages of
   * a killed worker come back only because the engine notices that it is dead.
   */
  readonly longLeases: boolean;
  /** The number of messages whose handlers end their processes. */
  readonly poison: number;
  /** True when each handler has three steps. */
  readonly steps: boolean;
  /** The rate limit of the queue in messages per second; 0 for none. */
  readonly limit: number;
  /** True when each worker also runs a cron loop, with one slot a second. */
  readonly cron: boolean;
  /** True to replace the workers one by one, without other faults. */
  readonly rolling: boolean;
}

/** Thrown when an engine does not support an option. */
export class UnsupportedError extends RangeError {
  override readonly name = "UnsupportedError";

  constructor(engine: string, option: string) {
    super(`Invalid ${option}: ${engine} does not support it. Choose another engine`);
  }
}

/** The text of `--help`. */
export const HELP: string = `npm run chaos -- [options]
  --engine ${SITE_NAMES.join("|").padEnd(28)} [redis]
  --messages N                          [2000]
  --seconds S                           [20]
  --workers W                           [6; 10 with --rolling]
  --faults term|all|kind,kind,…         [all] of ${FAULTS.join(", ")}
  --rate F                              faults per second [1]
  --seed X                              [random]
  --keys K                              every message has one of K keys [no keys]
  --cancels P                           cancels P percent of the messages [0]
  --long-leases                         leases of 300 s: only owner detection brings messages back
  --poison N                            the handlers of N messages kill their workers [0]
  --steps                               each handler has three steps
  --limit N                             limits the queue to N messages per second [no limit]
  --cron                                each worker also runs a cron loop with a slot a second
  --rolling                             replaces the workers one by one, under load`;

/**
 * Parses the command line.
 *
 * @throws {RangeError} for a value that is not allowed.
 */
export async function parseOptions(args: readonly string[]): Promise<ChaosOptions> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      engine: { type: "string", default: "redis" },
      messages: { type: "string", default: "2000" },
      seconds: { type: "string", default: "20" },
      workers: { type: "string" },
      faults: { type: "string", default: "all" },
      rate: { type: "string", default: "1" },
      seed: { type: "string" },
      keys: { type: "string" },
      cancels: { type: "string" },
      "long-leases": { type: "boolean", default: false },
      poison: { type: "string" },
      steps: { type: "boolean", default: false },
      limit: { type: "string" },
      cron: { type: "boolean", default: false },
      rolling: { type: "boolean", default: false },
    },
  });
  const { steps, cron, rolling, "long-leases": longLeases } = values;
  const [poison, limit] = [count("poison", values.poison), count("limit", values.limit)];
  const engine = oneOf("engine", values.engine, SITE_NAMES);
  const workers = values.workers ?? (rolling ? "10" : "6");
  const messages = whole("messages", values.messages);
  if (rolling && (longLeases || steps || cron || poison + limit > 0)) {
    throw new RangeError(
      "Invalid --rolling: it cannot be combined with --long-leases, --poison, --steps, --limit or --cron",
    );
  }
  if (poison > messages) {
    throw new RangeError(`Invalid --poison: expected at most ${messages} messages, got ${poison}`);
  }
  return {
    engine,
    messages,
    seconds: positive("seconds", values.seconds),
    workers: whole("workers", workers),
    faults: faultsOf(await loadSite(engine), values.faults, longLeases),
    faultsPerSecond: positive("rate", values.rate),
    seed: whole("seed", values.seed ?? `${1 + Math.floor(Math.random() * 1e9)}`),
    keys: count("keys", values.keys),
    cancels: share("cancels", values.cancels),
    longLeases,
    poison,
    steps,
    limit,
    cron,
    rolling,
  };
}

/**
 * Returns the faults of a list, or of `all`, without those that the engine cannot have.
 *
 * @throws {RangeError} for an unknown fault, and for a pause while workers receive messages ahead: they handle
 * these during the pause, so that it cannot be checked.
 */
export function faultsOf(
  { hasServer }: ChaosSite,
  text: string,
  longLeases = false,
): readonly FaultKind[] {
  const all = FAULTS.filter((kind) => kind !== "pause" || longLeases);
  const listed = text === "all" ? all : text.split(",").map((it) => oneOf("faults", it, FAULTS));
  if (listed.includes("pause") && !longLeases) {
    throw new RangeError("Invalid --faults: pause needs --long-leases");
  }
  return listed.filter((kind) => hasServer || !isServerFault(kind));
}

function oneOf<T extends string>(name: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((it) => it === value);
  if (found !== undefined) return found;
  throw new RangeError(`Invalid --${name}: expected one of ${allowed.join(", ")}, got ${value}`);
}

/** Parses a whole number, which is 0 without the option. */
function count(name: string, text: string | undefined): number {
  return text === undefined ? 0 : whole(name, text);
}

function whole(name: string, text: string): number {
  const value = Number(text);
  if (value > 0 && Number.isSafeInteger(value)) return value;
  throw new RangeError(`Invalid --${name}: expected a whole number above 0, got ${text}`);
}

/** Parses percents as a share, which is 0 without the option. */
function share(name: string, text: string | undefined): number {
  const percents = text === undefined ? 0 : positive(name, text);
  if (percents <= 100) return percents / 100;
  throw new RangeError(`Invalid --${name}: expected at most 100 percent, got ${text}`);
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (value > 0 && Number.isFinite(value)) return value;
  throw new RangeError(`Invalid --${name}: expected a number above 0, got ${text}`);
}
