// The state of the group in one word, one colour and one mark, for the header and the tab.

import type { Status } from "../src/health/status.ts";
import type { Phase } from "../src/lifecycle/group_events.ts";
import { plain, title } from "./format.ts";

/** The colour of a state. Each tone also has a mark, for users who do not see the colour. */
export type Tone = "good" | "busy" | "bad" | "quiet";

/** The state of the group. */
export interface Summary {
  readonly tone: Tone;
  readonly word: string;
  /** The state as a sentence, which screen readers announce. */
  readonly sentence: string;
}

/** The marks, as SVG paths. */
export const MARKS: Readonly<Record<Tone, string>> = {
  good: "M3.5 8.5l3 3 6-7",
  busy: "M3.6 8h.1M8 8h.1M12.4 8h.1",
  bad: "M8 3v6.5M8 12.4v.1",
  quiet: "M4 8h8",
};

const SENTENCES: Readonly<Record<Phase, string>> = {
  starting: "The group is starting.",
  running: "The group is running and takes work.",
  unready: "Shutdown has begun. The group is not ready, and still takes work.",
  draining: "The group takes no new work and finishes the work in flight.",
  cancelling: "The deadline is near. The group cancels the work in flight.",
  stopped: "The group has stopped.",
};

/** Summarizes a status. */
export function summarize(
  { phase, paused, ready, live, end }:
    & Pick<Status, "phase" | "paused" | "ready" | "live">
    & Partial<Pick<Status, "end">>,
): Summary {
  const sentence = SENTENCES[phase];
  if (phase === "running") {
    if (!live) return { tone: "bad", word: "Stuck", sentence: "A loop does not respond." };
    if (paused) {
      return {
        tone: "busy",
        word: "Paused",
        sentence: "The group takes no new work until it is resumed.",
      };
    }
    if (!ready) return { tone: "bad", word: "Not ready", sentence: "A loop is not ready." };
    return { tone: "good", word: "Running", sentence };
  }
  if (phase === "stopped" && end !== undefined) {
    const tone = end.outcome === "drained" ? "quiet" : "bad";
    const text = `The group has stopped: ${plain(end.outcome)}, exit code ${end.exitCode}.`;
    return { tone, word: "Stopped", sentence: text };
  }
  const tone = phase === "cancelling" ? "bad" : phase === "stopped" ? "quiet" : "busy";
  return { tone, word: title(phase), sentence };
}

const COLOURS: Readonly<Record<Tone, string>> = {
  good: "#1a7f4b",
  busy: "#b45f06",
  bad: "#c0362c",
  quiet: "#6b6f76",
};

/** Shows the state in the title and the icon of the tab. */
export function showInTab({ tone, word }: Summary, { totals, process }: Status): void {
  const work = totals.inFlight > 0 && tone !== "good" ? `, ${totals.inFlight} in flight` : "";
  document.title = [`${word}${work}`, ...(process ? [process.name] : []), "lastcall"].join(" · ");
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  const href = `data:image/svg+xml,${
    encodeURIComponent(
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="${
        COLOURS[tone]
      }"/><path d="${
        MARKS[tone]
      }" fill="none" stroke="#fff" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/></svg>`,
    )
  }`;
  if (icon !== null && icon.href !== href) icon.href = href;
}
