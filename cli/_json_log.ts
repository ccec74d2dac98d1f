import type { Log } from "../mod.ts";
import { logLine } from "../src/log.ts";
import type { Io } from "./_io.ts";

/**
 * The log of `run --json`: one JSON value a line on standard error. The report at the end is the
 * result, and goes to standard output.
 */
export function jsonLog(io: Io): Log {
  const at = (level: keyof Log) => (message: string, properties: Record<string, unknown> = {}) => {
    const { report } = properties;
    if (report !== undefined) return io.out.write(`${JSON.stringify({ report })}\n`);
    io.err.write(`${logLine(level, message, properties)}\n`);
  };
  return { debug: () => {}, info: at("info"), warn: at("warn"), error: at("error") };
}
