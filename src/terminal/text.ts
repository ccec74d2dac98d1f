/** Text as a terminal shows it: of a stop, and of the command. */

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** How a piece of text looks. */
export type Style = keyof typeof STYLES;

/** Paints text where colours are wanted, and leaves it as it is elsewhere. */
export type Paint = (style: Style, text: string) => string;

/** The painter of a terminal. */
export function painter(color: boolean): Paint {
  return color ? (style, text) => `\x1b[${STYLES[style]}m${text}\x1b[0m` : (_, text) => text;
}

/** Names, ids and bodies come from anywhere: no line breaks, nothing that moves a cursor. */
export function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex -- these are what is shown instead of done
  return text.replace(/[\0-\x1f\x7f-\x9f]/g, (it) => it === "\n" ? "⏎" : "·");
}

/** At most so many characters, with a sign where something is missing. */
export function fit(text: string, columns: number): string {
  const characters = [...text];
  if (characters.length <= columns) return text;
  return `${characters.slice(0, Math.max(0, columns - 1)).join("")}…`;
}

/** A bar of which this share, from 0 to 1, is full. */
export function bar(share: number, columns: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * columns);
  return "━".repeat(full) + "─".repeat(columns - full);
}

/** A duration for people. */
export function seconds(ms: number): string {
  if (ms === Infinity) return "no limit";
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const whole = Math.round(ms / 1_000);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
