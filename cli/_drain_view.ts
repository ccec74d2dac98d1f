// What a drain waits for, as it goes on.

import { oneLine } from "../src/terminal/text.ts";
import { ageText } from "./_duration.ts";
import type { StatusAnswer } from "./_health_client.ts";
import type { Io } from "./_io.ts";
import { live } from "./_live.ts";
import { doneBar } from "./_progress.ts";
import { inFlightOf } from "./_status_text.ts";

/** Tells of a drain as it goes on. */
export interface DrainView {
  show(status: StatusAnswer, elapsedMs: number): void;
  end(): void;
}

/** A bar for a person at a terminal, a line at every change elsewhere, nothing beside `--json`. */
export function drainView(io: Io, json: boolean): DrainView {
  if (json) return { show() {}, end() {} };
  return io.err.interactive ? drawn(io) : written(io);
}

function drawn(io: Io): DrainView {
  const screen = live(io.err);
  let most = 0;
  return {
    show(status, elapsedMs) {
      const left = inFlightOf(status);
      most = Math.max(most, left);
      const head = `draining  ${doneBar(most - left, most)}  ${most - left} of ${most}, ` +
        `${left} left, ${ageText(elapsedMs)}`;
      screen.show([head, ...busy(status).map((text) => `  ${text}`)]);
    },
    end: () => screen.clear(),
  };
}

function written(io: Io): DrainView {
  let last = -1;
  return {
    show(status) {
      const left = inFlightOf(status);
      if (left === last || left === 0) return;
      last = left;
      io.err.write(`draining, ${left} in flight: ${busy(status).join("; ")}\n`);
    },
    end() {},
  };
}

/** Those who are not done, the most busy first. */
function busy({ loops }: StatusAnswer): readonly string[] {
  return loops.filter(({ inFlight }) => inFlight > 0)
    .sort((a, b) => b.inFlight - a.inFlight)
    .map(({ name, inFlight, oldestMs }) =>
      `${oneLine(name)} ${inFlight}, the oldest for ${ageText(oldestMs)}`
    );
}
