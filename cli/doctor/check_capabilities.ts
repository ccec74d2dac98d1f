import type { Capabilities } from "../../mod.ts";
import { type Finding, ok, warning } from "./finding.ts";

/** What an engine cannot do, and what that asks of the worker. */
export function checkCapabilities(
  { fencedAck, restoresAttempts, fifo }: Capabilities,
): readonly Finding[] {
  const lacks = [
    ...(fencedAck ? [] : ["cannot refuse a stale receipt by itself"]),
    ...(restoresAttempts ? [] : ["counts a delivery that a stop gave back"]),
  ];
  if (lacks.length === 0) {
    return fifo ? [] : [ok("capabilities", "messages may come out of order")];
  }
  return [warning("capabilities", {
    found: `the engine ${lacks.join(", and ")}`,
    why: fencedAck
      ? "messages may become dead letters by stops alone"
      : "a worker that was suspended may settle what somebody else works on by now",
    change: fencedAck
      ? "a higher --max-deliveries"
      : "handlers whose work may be done twice; or SQLite, Redis, PostgreSQL or Deno KV",
  })];
}
