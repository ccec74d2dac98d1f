// Console blocks of the documentation, as sessions that can be repeated.
//
//   $ lastcall count sqlite:jobs.db      a command; `\` at its end goes on in the next line
//   3                                    what it prints; `…` in a line stands for any text,
//   …                                    alone in a line for any lines, and for none
//   ^C                                   Ctrl+C, pressed once the lines above were printed
//
// A command must succeed, unless the next one is `echo $?`: then the reader sees that it does not.

/** A command and what the reader is told that it prints. */
export interface Command {
  /** Lines from the opening fence of its block, from 1. */
  readonly line: number;
  readonly text: string;
  /** The expected lines; `^C` among them is a key, not output. */
  readonly expected: readonly string[];
  /** Its exit code is looked at by the next command, so it may be any. */
  readonly mayFail: boolean;
}

const ANYTHING = "…";
const INTERRUPT = "^C";

/** The commands of a console block, in order. */
export function parseCommands(text: string): readonly Command[] {
  const found: { line: number; text: string; expected: string[] }[] = [];
  let goesOn = false;
  text.split("\n").forEach((line, index) => {
    const current = found.at(-1);
    if (line.startsWith("$ ")) found.push({ line: index + 1, text: line.slice(2), expected: [] });
    else if (current === undefined) throw new Error(`Output without a command: ${line}`);
    else if (goesOn) current.text += `\n${line.replace(/^> /, "")}`;
    else current.expected.push(line.trimEnd());
    goesOn = line.endsWith("\\") && (goesOn || line.startsWith("$ "));
  });
  return found.map((it, index) => ({
    ...it,
    mayFail: found[index + 1]?.text.startsWith("echo $?") ?? false,
  }));
}

/** How often Ctrl+C must have been pressed once so much of the output is there. */
export function interruptsDue(expected: readonly string[], output: string): number {
  // The last line may be half written.
  const printed = lines(output.slice(0, output.lastIndexOf("\n") + 1));
  const parts = expected.flatMap((line, index) => line === INTERRUPT ? [index] : []);
  const due = parts.findIndex((end) => {
    const before = withoutKeys(expected.slice(0, end));
    return furthest([...before, ANYTHING], printed).matches === false;
  });
  return due < 0 ? parts.length : due;
}

/** What differs between expected and printed lines, for people to read; undefined when nothing. */
export function difference(expected: readonly string[], output: string): string | undefined {
  const wanted = withoutKeys(expected);
  const printed = lines(output);
  const { matches, wantedUpTo, printedUpTo } = furthest(wanted, printed);
  if (matches) return undefined;
  return [
    ...printed.slice(0, printedUpTo).map((line) => `  ${line}`),
    ...wanted.slice(wantedUpTo).map((line) => `- ${line}`),
    ...printed.slice(printedUpTo).map((line) => `+ ${line}`),
  ].map((line) => line.trimEnd()).join("\n");
}

function withoutKeys(expected: readonly string[]): readonly string[] {
  return expected.filter((line) => line !== INTERRUPT);
}

function lines(output: string): readonly string[] {
  const trimmed = output.trimEnd();
  return trimmed === "" ? [] : trimmed.split("\n").map((line) => line.trimEnd());
}

interface Progress {
  readonly matches: boolean;
  readonly wantedUpTo: number;
  readonly printedUpTo: number;
}

/** Matches line by line; a `…` first stands for no line, and for one more after each failure. */
function furthest(wanted: readonly string[], printed: readonly string[]): Progress {
  let best = { matches: false, wantedUpTo: 0, printedUpTo: 0 };
  let gap: { wanted: number; printed: number } | undefined;
  for (let at = 0, seen = 0;;) {
    if (at > best.wantedUpTo) best = { matches: false, wantedUpTo: at, printedUpTo: seen };
    const line = wanted[at];
    if (line === ANYTHING) gap = { wanted: ++at, printed: seen };
    else if (at === wanted.length && seen === printed.length) return { ...best, matches: true };
    else if (line !== undefined && seen < printed.length && fits(line, printed[seen] ?? "")) {
      at++;
      seen++;
    } else if (gap !== undefined && gap.printed < printed.length) {
      at = gap.wanted;
      seen = ++gap.printed;
    } else return best;
  }
}

function fits(line: string, printed: string): boolean {
  const parts = line.split(ANYTHING).map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(printed);
}
