// What `npm run chaos` can be told.

import { parseArgs } from "node:util";

/** The engines that can be put under fire. */
export const ENGINES = ["redis", "postgres", "sqlite", "nats"] as const;
export type EngineName = (typeof ENGINES)[number];

/**
 * What can happen: a worker is stopped well, killed, or frozen for longer than its leases; the engine is
 * killed and started again, or frozen. A file is never away, so SQLite knows the first three only.
 */
export const FAULTS = ["term", "kill", "pause", "restart", "freeze"] as const;
export type FaultKind = (typeof FAULTS)[number];

/** One run. */
export interface ChaosOptions {
  readonly engine: EngineName;
  /** How many messages are sent, spread over the time. */
  readonly messages: number;
  /** How long there are messages and faults. What is left then is worked off in peace. */
  readonly seconds: number;
  readonly workers: number;
  readonly faults: readonly FaultKind[];
  /** The same seed makes the same faults in the same order. */
  readonly seed: number;
  /** How many faults there are in a second, about. */
  readonly faultsPerSecond: number;
  /** Ten workers are replaced one by one, and nothing else happens. */
  readonly rolling: boolean;
}

/** What `--help` says. */
export const HELP: string = `npm run chaos -- [options]
  --engine redis|postgres|sqlite|nats   [redis]
  --messages N                          [2000]
  --seconds S                           [20]
  --workers W                           [6; 10 with --rolling]
  --faults term|all|kind,kind,…         [all] of ${FAULTS.join(", ")}
  --rate F                              faults in a second [1]
  --seed X                              [random]
  --rolling                             replaces the workers one by one, under load`;

/** Reads the command line, and refuses what it does not understand. */
export function parseOptions(args: readonly string[]): ChaosOptions {
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
      rolling: { type: "boolean", default: false },
    },
  });
  const engine = oneOf("engine", values.engine, ENGINES);
  const workers = values.workers ?? (values.rolling ? "10" : "6");
  return {
    engine,
    messages: positive("messages", values.messages),
    seconds: positive("seconds", values.seconds),
    workers: positive("workers", workers),
    faults: faultsOf(engine, values.faults),
    faultsPerSecond: positive("rate", values.rate),
    seed: positive("seed", values.seed ?? `${1 + Math.floor(Math.random() * 1e9)}`),
    rolling: values.rolling,
  };
}

/** The faults that a word stands for, without those that the engine cannot have. */
export function faultsOf(engine: EngineName, text: string): readonly FaultKind[] {
  const asked = text === "all" ? FAULTS : text.split(",").map((it) => oneOf("faults", it, FAULTS));
  const possible = (kind: FaultKind) =>
    engine !== "sqlite" || (kind !== "restart" && kind !== "freeze");
  return asked.filter(possible);
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
