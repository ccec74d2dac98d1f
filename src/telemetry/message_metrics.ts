import type { OpenTelemetry } from "./open_telemetry.ts";
import { messagingAttributes } from "./spans.ts";

/** From 5 ms to 10 s, as the conventions for messages advise; agents take minutes. */
const BOUNDARIES_S = [
  ...[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
  ...[30, 60, 300],
];

/** Notes one message: call it when the work begins, and what it returns with what became of it. */
export type NoteMessage = (mailbox: string) => (outcome: string, seconds: number) => void;

let made: { readonly provider: unknown; readonly note: NoteMessage } | undefined;

/** The metrics of messages. Their labels are names of mailboxes and outcomes, never ids. */
export function messageMetrics(api: OpenTelemetry): NoteMessage {
  const provider = api.metrics.getMeterProvider();
  // Instruments belong to who made them: another provider needs others.
  if (made?.provider !== provider) made = { provider, note: make(api) };
  return made.note;
}

function make(api: OpenTelemetry): NoteMessage {
  const meter = api.metrics.getMeter("lastcall");
  const durations = meter.createHistogram("messaging.process.duration", {
    description: "How long messages were worked on",
    unit: "s",
    advice: { explicitBucketBoundaries: BOUNDARIES_S },
  });
  const messages = meter.createCounter("lastcall.messages", {
    description: "Messages that were worked on, by what became of them",
    unit: "{message}",
  });
  const inFlight = meter.createUpDownCounter("lastcall.messages.in_flight", {
    description: "Messages that are worked on now",
    unit: "{message}",
  });
  return (mailbox) => {
    const attributes = messagingAttributes(mailbox, "process");
    inFlight.add(1, attributes);
    return (outcome, seconds) => {
      inFlight.add(-1, attributes);
      const judged = { ...attributes, "lastcall.outcome": outcome };
      durations.record(seconds, judged);
      messages.add(1, judged);
    };
  };
}
