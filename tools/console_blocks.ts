// Parses the console blocks of the documentation, and compares their output.
//
//   $ lastcall count sqlite:jobs.db      a command; `\` at its end continues it in the next line
//   3                                    its output; `…` in a line matches any text,
//   …                                    alone in a line any number of lines
//   ^C                                   Ctrl+C, pressed after the lines above are printed
//
// A command must succeed, unless the next one is `echo $?`, which shows its exit code.

/** A command with its expected output. */
export interface Command {
  /** The line number in the block, from 1. */
  readonly line: number;
  readonly text: string;
  /** The expected lines; the line `^C` is a key press. */
  readonly expected: readonly string[];
  /** True if the next command shows the exit code. */
  readonly mayFail: boolean;
}

const ANYTHING = "…";
const INTERRUPT = "^C";

/** Parses the commands of a console block. */
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

/** Returns how often Ctrl+C is to be pressed after this much output. */
export function interruptsDue(expected: readonly string[], output: string): number {
  // Ignores an incomplete last line.
  const printed = lines(output.slice(0, output.lastIndexOf("\n") + 1));
  const parts = expected.flatMap((line, index) => line === INTERRUPT ? [index] : []);
  const due = parts.findIndex((end) => {
    const before = withoutKeys(expected.slice(0, end));
    return furthest([...before, ANYTHING], printed).matches === false;
  });
  return due < 0 ? parts.length : due;
}

/** Returns a diff of expected and printed lines, or undefined when they match. */
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

/** Matches line by line with backtracking: `…` matches one line more after each mismatch. */
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
