// Formats numbers, durations and states.

import type { RateLimit } from "../src/mailbox/mailbox.ts";

/** Formats 1234567 as `1 234 567`, with narrow no-break spaces. */
export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Formats a duration in at most two units: `3.2 s`, `2 min 5 s`, `1 h 20 min`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1_440)} d ${Math.floor(minutes / 60) % 24} h`;
}

/** Formats a rate per second; below 10 with one decimal. */
export function rate(perSecond: number): string {
  return perSecond < 10 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}

const PERIODS: Readonly<Record<number, string>> = {
  1_000: "second",
  60_000: "minute",
  3_600_000: "hour",
  86_400_000: "day",
};

/** Formats a rate limit: `100 per second`, `10 per 500 ms`. */
export function limit({ max, perMs }: RateLimit): string {
  return `${count(max)} per ${PERIODS[perMs] ?? duration(perMs)}`;
}

/** Formats `max_deliveries` as `max deliveries`. */
export function plain(word: string): string {
  return word.replaceAll("_", " ");
}

/** Formats `max_deliveries` as `Max deliveries`. */
export function title(word: string): string {
  const text = plain(word);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Formats a count with its noun: `1 loop`, `2 loops`. */
export function several(value: number, one: string, many: string = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Formats a time of day with hours, minutes and seconds. */
export function clockTime(at: number): string {
  return new Date(at).toLocaleTimeString();
}

/** Formats the time since a moment. */
export function age(at: number, now: number): string {
  return duration(Math.max(0, now - at));
}

/** Formats a moment: the time alone on the same day, otherwise with its date. */
export function moment(at: number, now: number): string {
  const [date, today] = [new Date(at), new Date(now)];
  return date.toDateString() === today.toDateString() ? clockTime(at) : date.toLocaleString();
}
