import type { Log } from "../mod.ts";
import type { Io } from "./_io.ts";

/**
 * The log of `run --json`: one JSON value a line on standard error. The report at the end is the
 * result, and goes to standard output.
 */
export function jsonLog(io: Io): Log {
  const at = (level: string) => (message: string, properties: Record<string, unknown> = {}) => {
    const { report, ...rest } = properties;
    if (report !== undefined) return io.out.write(`${JSON.stringify({ report })}\n`);
    const { error } = rest;
    const shown = error instanceof Error ? { ...rest, error: String(error) } : rest;
    io.err.write(`${JSON.stringify({ level, message, ...shown })}\n`);
  };
  return { debug: () => {}, info: at("info"), warn: at("warn"), error: at("error") };
}
