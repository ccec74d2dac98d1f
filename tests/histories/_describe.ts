// Writes calls and answers for readers, one call per line.

import type { Answer, Call, Look, Seen } from "./_calls.ts";

/** Describes a call. `first` is the position of the next delivery. */
export function describe(call: Call, first: number): string {
  if ("messages" in call) {
    return `${call.do} ${
      call.messages.map(({ serial, id, options }) => {
        const more = Object.entries({ id, ...options }).filter(([, value]) => value !== undefined);
        return [
          `#${serial}`,
          ...more.map(([name, value]) => `${name}=${value}`),
        ].join(" ");
      }).join(", ")
    }`;
  }
  if ("delivery" in call) {
    return `${call.do} d${call.delivery}${call.ms > 0 ? ` ${call.ms}` : ""}`;
  }
  if ("deliveries" in call) {
    return `${call.do} ${call.deliveries.map((it) => `d${it}`).join(" ")}`;
  }
  if ("id" in call) {
    return `${call.do} ${call.id.length < 9 ? call.id : "a generated id"}`;
  }
  if (call.do === "receive") return `receive ${call.max} as d${first}…`;
  return "max" in call ? `${call.do} ${call.max}` : call.do;
}

/** Describes an answer, without the ids that a mailbox chose. */
export function shownAs(answer: Answer): string {
  if ("stored" in answer) {
    return answer.stored.map((stored) => stored ? "stored" : "a duplicate")
      .join(", ");
  }
  if ("received" in answer) {
    return answer.received.map(message).join(", ") || "nothing";
  }
  if ("result" in answer) return answer.result;
  if ("results" in answer) {
    return answer.results.map((done) => done ? "done" : "refused").join(", ");
  }
  if ("found" in answer) {
    return answer.found === undefined ? "nothing" : message(answer.found);
  }
  return "value" in answer ? String(answer.value ?? "done") : all(answer);
}

function message({ serial, deliveryCount, checkpoint, state }: Seen): string {
  const more = [
    ...(state === undefined ? [] : [state]),
    ...(deliveryCount === undefined ? [] : [`delivered ${deliveryCount}`]),
    ...(checkpoint === undefined || checkpoint === null ? [] : [`checkpoint ${checkpoint}`]),
  ];
  return more.length === 0 ? `#${serial}` : `#${serial} (${more.join(", ")})`;
}

function all({ count, messages, letters, letterCount, states }: Look): string {
  const named = (
    name: string,
    number: number,
    some: readonly string[] = [],
  ) => {
    return [`${number} ${name}`, some.join(", ")].filter((text) => text !== "")
      .join(": ");
  };
  return [
    named("messages", count, messages?.map(message)),
    named("dead letters", letterCount, letters?.map((serial) => `#${serial}`)),
    ...(states === undefined ? [] : [
      Object.entries(states).map(([name, value]) => `${name} ${value}`).join(
        ", ",
      ),
    ]),
  ].join("; ");
}
