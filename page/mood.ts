// What everything comes to, in one word, one colour and one shape: in the header, the title and the icon.

import type { Status } from "../src/health/status.ts";
import { plain, title } from "./words.ts";

/** A tone is never told by its colour alone: each has a mark of its own. */
export type Tone = "good" | "busy" | "bad" | "quiet";

/** How a group is doing. */
export interface Mood {
  readonly tone: Tone;
  readonly word: string;
  /** The same in a sentence, for who hears it. */
  readonly sentence: string;
}

/** The marks, which are drawn and never read aloud. */
export const MARKS: Readonly<Record<Tone, string>> = {
  good: "M3.5 8.5l3 3 6-7",
  busy: "M3.6 8h.1M8 8h.1M12.4 8h.1",
  bad: "M8 3v6.5M8 12.4v.1",
  quiet: "M4 8h8",
};

const SENTENCES: Readonly<Record<string, string>> = {
  starting: "It is starting.",
  running: "It is running and takes work.",
  unready: "A stop has begun: it is not ready any more, and still takes work.",
  draining: "It takes no new work and finishes what is in flight.",
  cancelling: "The time is nearly up: work in flight is being cancelled.",
  stopped: "It has stopped.",
};

/** What the phase, and trouble in it, come to. */
export function moodOf({ phase, drained, ready, live, end }: Status): Mood {
  const sentence = SENTENCES[phase] ?? "";
  if (phase === "running") {
    if (!live) return { tone: "bad", word: "Stuck", sentence: "A loop gives no sign of life." };
    if (drained) {
      return { tone: "busy", word: "Drained", sentence: "It was told to take no work." };
    }
    if (!ready) return { tone: "bad", word: "Not ready", sentence: "A loop is in trouble." };
    return { tone: "good", word: "Running", sentence };
  }
  if (phase === "stopped" && end !== undefined) {
    const tone = end.outcome === "drained" ? "quiet" : "bad";
    const told = `It has stopped: ${plain(end.outcome)}, exit code ${end.exitCode}.`;
    return { tone, word: "Stopped", sentence: told };
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

/** The title and the icon of the tab tell it too. */
export function showInTab({ tone, word }: Mood, inFlight: number): void {
  document.title = inFlight > 0 && tone !== "good"
    ? `${word}, ${inFlight} in flight · lastcall`
    : `${word} · lastcall`;
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
