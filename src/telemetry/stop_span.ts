import { openTelemetry } from "./open_telemetry.ts";

/** What is known of a stop when its loops have ended. */
export interface StopRecord {
  readonly reason: { readonly kind: string; readonly text: string };
  readonly phases: readonly {
    readonly phase: string;
    readonly at: number;
    readonly reason: string;
  }[];
  readonly members: readonly {
    readonly loop: { readonly name: string };
    readonly state: string;
  }[];
}

/** Has a stop as a span: from its first moment until the loops have ended, each phase an event. */
export async function recordStop(stop: StopRecord, endedAt: number): Promise<void> {
  const { reason, phases, members } = stop;
  const hung = members.filter(({ state }) => state === "hung").map(({ loop }) => loop.name);
  const api = await openTelemetry();
  if (api === undefined) return;
  const stopping = phases.filter(({ phase }) => phase !== "starting" && phase !== "running");
  const startTime = new Date(stopping[0]?.at ?? endedAt);
  const span = api.trace.getTracer("lastcall").startSpan("lastcall.stop", {
    startTime,
    attributes: {
      "lastcall.stop.kind": reason.kind,
      "lastcall.stop.reason": reason.text,
      "lastcall.stop.loops": members.length,
      "lastcall.stop.hung": hung.length,
    },
  }, api.ROOT_CONTEXT);
  for (const { phase, at, reason } of stopping) span.addEvent(phase, { reason }, new Date(at));
  if (hung.length > 0) {
    const message = `not ended in time: ${hung.join(", ")}`;
    span.setStatus({ code: api.SpanStatusCode.ERROR, message });
  }
  span.end(new Date(endedAt));
}
