import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import { isTracing } from "../telemetry/open_telemetry.ts";
import type { StopRecord } from "../telemetry/spans.ts";
import type { Deadline } from "./deadline.ts";

/** Tells of a stop where somebody traces, and soon: the exporter may be among what stops next. */
export async function traceStop(
  stop: StopRecord,
  { remainingMs }: Deadline,
  clock: Clock,
): Promise<void> {
  if (!isTracing()) return;
  const endedAt = clock.now();
  const told = import("../telemetry/spans.ts").then((it) => it.recordStop(stop, endedAt));
  await settlesWithin(told, remainingMs / 2, clock);
}
