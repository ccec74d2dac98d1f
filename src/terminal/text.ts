/** Formats text for a terminal. The stop view and the command line use it. */

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** A text style that terminals can show. */
export type Style = keyof typeof STYLES;

/** Adds a style to text, or returns the text unchanged where colours are off. */
export type Paint = (style: Style, text: string) => string;

/** Returns the {@linkcode Paint} function for a terminal with or without colours. */
export function painter(color: boolean): Paint {
  return color ? (style, text) => `\x1b[${STYLES[style]}m${text}\x1b[0m` : (_, text) => text;
}

/** Replaces line breaks and control characters, so that names and ids cannot move the cursor. */
export function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex -- control characters are what it replaces
  return text.replace(/[\0-\x1f\x7f-\x9f]/g, (it) => it === "\n" ? "⏎" : "·");
}

/** Shortens text to `columns` characters. An ellipsis marks a cut. */
export function fit(text: string, columns: number): string {
  const characters = [...text];
  if (characters.length <= columns) return text;
  return `${characters.slice(0, Math.max(0, columns - 1)).join("")}…`;
}

/** Returns a progress bar. `share` is the filled part, from 0 to 1. */
export function bar(share: number, columns: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * columns);
  return "━".repeat(full) + "─".repeat(columns - full);
}

/** Formats a duration in milliseconds as seconds, or as minutes and seconds. */
export function seconds(ms: number): string {
  if (ms === Infinity) return "no limit";
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const whole = Math.round(ms / 1_000);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
