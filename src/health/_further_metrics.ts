import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { checkMetrics } from "./_exposition.ts";
import type { HealthOptions } from "./health_options.ts";
import type { Metric } from "./metric_source.ts";

/** How long those may take who have numbers to show. */
const PATIENCE_MS = 1_000;

/** What takes too long, or fails, is left out: the other numbers are still worth having. */
export async function furtherMetrics(
  { mailboxes = [], metrics = [] }: HealthOptions,
  clock: Clock,
  log: Log,
): Promise<readonly Metric[]> {
  const sources = [
    ...metrics.map((source) => async () => await source.metrics()),
    ...mailboxes.map(
      (mailbox) => async () => [mailboxMetric([mailbox.name, await mailbox.approximateCount()])],
    ),
  ];
  const collected = await Promise.all(sources.map(async (collect) => {
    let found: readonly Metric[] = [];
    const collecting = collect().then((metrics) => void (found = checkMetrics(metrics)))
      .catch((error) => log.warn("some metrics could not be collected", { error }));
    await settlesWithin(collecting, PATIENCE_MS, clock);
    return found;
  }));
  return collected.flat();
}

function mailboxMetric([mailbox, value]: readonly [string, number]): Metric {
  return {
    name: "lastcall_mailbox_messages",
    help: "Messages in a mailbox, whatever their state.",
    type: "gauge",
    samples: [{ labels: { mailbox }, value }],
  };
}
