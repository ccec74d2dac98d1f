// The command line of `npm run chaos`.

import { parseArgs } from "node:util";
import { type ChaosSite, loadSite, SITE_NAMES } from "./sites.ts";

/**
 * The faults: a worker gets SIGTERM or SIGKILL, or is suspended for longer than its leases last; the
 * server of the engine is killed and restarted, or frozen.
 */
export const FAULTS = ["term", "kill", "suspend", "restart", "freeze"] as const;
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
  /** The same seed injects the same faults in the same order. */
  readonly seed: number;
  readonly faultsPerSecond: number;
  /** The number of keys; 0 for messages without keys. */
  readonly keys: number;
  /** The share of messages that are cancelled a moment after they were sent. */
  readonly cancels: number;
  /** True to replace the workers one by one, without other faults. */
  readonly rolling: boolean;
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
      rolling: { type: "boolean", default: false },
    },
  });
  const engine = oneOf("engine", values.engine, SITE_NAMES);
  const workers = values.workers ?? (values.rolling ? "10" : "6");
  return {
    engine,
    messages: positive("messages", values.messages),
    seconds: positive("seconds", values.seconds),
    workers: positive("workers", workers),
    faults: faultsOf(await loadSite(engine), values.faults),
    faultsPerSecond: positive("rate", values.rate),
    seed: positive("seed", values.seed ?? `${1 + Math.floor(Math.random() * 1e9)}`),
    keys: values.keys === undefined ? 0 : Math.ceil(positive("keys", values.keys)),
    cancels: values.cancels === undefined ? 0 : positive("cancels", values.cancels) / 100,
    rolling: values.rolling,
  };
}

/** Returns the faults of a list, or of `all`, without those that the engine cannot have. */
export function faultsOf({ hasServer }: ChaosSite, text: string): readonly FaultKind[] {
  const listed = text === "all" ? FAULTS : text.split(",").map((it) => oneOf("faults", it, FAULTS));
  return listed.filter((kind) => hasServer || !isServerFault(kind));
}

function oneOf<T extends string>(name: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((it) => it === value);
  if (found !== undefined) return found;
  throw new RangeError(`Invalid --${name}: expected one of ${allowed.join(", ")}, got ${value}`);
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (value > 0 && Number.isFinite(value)) return value;
  throw new RangeError(`Invalid --${name}: expected a number above 0, got ${text}`);
}
