import type { OpenTelemetry } from "./open_telemetry.ts";
import { messagingAttributes } from "./spans.ts";

/** Up to 10 s as the messaging conventions recommend, then up to 5 minutes for agents. */
const BOUNDARIES_S = [
  ...[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
  ...[30, 60, 300],
];

/**
 * Measures one message. The caller calls it when the handler starts, and calls the returned function with
 * the outcome and the duration when the handler ends.
 */
export type NoteMessage = (mailbox: string) => (outcome: string, seconds: number) => void;

let cached: { readonly provider: unknown; readonly note: NoteMessage } | undefined;

/** Returns the metrics of messages. Their labels are mailbox names and outcomes, never message ids. */
export function messageMetrics(api: OpenTelemetry): NoteMessage {
  const provider = api.metrics.getMeterProvider();
  // Instruments belong to one provider: create them again when the application registers another.
  if (cached?.provider !== provider) cached = { provider, note: createInstruments(api) };
  return cached.note;
}

function createInstruments(api: OpenTelemetry): NoteMessage {
  const meter = api.metrics.getMeter("lastcall");
  const durations = meter.createHistogram("messaging.process.duration", {
    description: "Time that handlers spent on messages",
    unit: "s",
    advice: { explicitBucketBoundaries: BOUNDARIES_S },
  });
  const messages = meter.createCounter("lastcall.messages", {
    description: "Handled messages by outcome",
    unit: "{message}",
  });
  const inFlight = meter.createUpDownCounter("lastcall.messages.in_flight", {
    description: "Messages whose handler is running",
    unit: "{message}",
  });
  return (mailbox) => {
    const attributes = messagingAttributes(mailbox, "process");
    inFlight.add(1, attributes);
    return (outcome, seconds) => {
      inFlight.add(-1, attributes);
      const withOutcome = { ...attributes, "lastcall.outcome": outcome };
      durations.record(seconds, withOutcome);
      messages.add(1, withOutcome);
    };
  };
}
