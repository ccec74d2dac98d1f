// Reads a TypeScript source just closely enough to tell code from comments, text and patterns.

/** What a source says about itself. */
export interface Source {
  readonly path: string;
  /** The source with comments and the contents of literals blanked, position by position. */
  readonly code: string;
  /** The specifiers of its imports and re-exports, types and dynamic ones included. */
  readonly imports: readonly string[];
  readonly lineCount: number;
}

/** Scans one source. */
export function scan(path: string, text: string): Source {
  const code = blank(text);
  // Literals keep their quotes and their length, so a specifier stands where its blanks stand.
  const imports = [...code.matchAll(/(?<![\w$.])(?:from|import\s*\(?)\s*(["'])( *)\1/gd)].map(
    (match) => {
      const [start, end] = match.indices?.[2] ?? [0, 0];
      return text.slice(start, end);
    },
  );
  return { path, code, imports, lineCount: text.trimEnd().split("\n").length };
}

// Tried in this order at every position outside of a template literal.
const literals: readonly RegExp[] = [
  /\/\/[^\n]*/y,
  /\/\*[^]*?\*\//y,
  /"(?:\\[^]|[^"\\\n])*"/y,
  /'(?:\\[^]|[^'\\\n])*'/y,
];
const pattern = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/\w*/y;
// A slash after one of these begins a pattern; after a value it divides.
const beforePattern =
  /(?:^|[=(,:;!&|?{}[+\-*%~^<>]|\b(?:return|typeof|case|of|in|await|throw))\s*$/;

/** Blanks comments and literals, keeps line ends and the first and last character of literals. */
function blank(text: string): string {
  let out = "";
  // For each open `${`, how many plain braces are open within it.
  const templates: number[] = [];
  let at = 0;
  while (at < text.length) {
    const char = text[at];
    const taken = matchAt(text, at, out);
    if (taken !== undefined) {
      out += hollow(taken);
      at += taken.length;
    } else if (char === "`" || (char === "}" && templates.at(-1) === 0)) {
      if (char === "}") templates.pop();
      const part = templatePart(text, at);
      if (part.endsWith("${")) templates.push(0);
      out += hollow(part);
      at += part.length;
    } else {
      const depth = templates.length - 1;
      if (char === "{" && depth >= 0) templates[depth]!++;
      if (char === "}" && depth >= 0) templates[depth]!--;
      out += char;
      at++;
    }
  }
  return out;
}

function matchAt(text: string, at: number, before: string): string | undefined {
  const candidates = beforePattern.test(before.slice(-40)) ? [...literals, pattern] : literals;
  for (const literal of candidates) {
    literal.lastIndex = at;
    const found = literal.exec(text);
    if (found) return found[0];
  }
  return undefined;
}

/** From a backquote or the end of a substitution to the next substitution or the closing one. */
function templatePart(text: string, at: number): string {
  const end = /(?:\\[^]|[^`\\$]|\$(?!\{))*(?:`|\$\{|$)/y;
  end.lastIndex = at + 1;
  return text[at] + (end.exec(text)?.[0] ?? "");
}

function hollow(literal: string): string {
  const comment = literal.startsWith("//") || literal.startsWith("/*");
  const spaces = (part: string) => part.replace(/[^\n]/g, " ");
  if (comment || literal.length < 2) return spaces(literal);
  return literal[0] + spaces(literal.slice(1, -1)) + literal.at(-1);
}
