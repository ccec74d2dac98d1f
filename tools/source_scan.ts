// Reads the facts about a TypeScript source that the layering rules need, from its syntax tree.

import { parse } from "@babel/parser";

/** The facts about one source. */
export interface Source {
  readonly path: string;
  /** The modules it imports and re-exports, types and dynamic imports included. */
  readonly imports: readonly string[];
  /** The arguments of dynamic imports whose module is unknown before the program runs. */
  readonly computedImports: readonly string[];
  /** Its uses of the globals that the rules restrict: `Deno`, `globalThis.process`, `setTimeout`. */
  readonly globals: readonly string[];
  /** The texts of its string literals, templates and patterns, without imports. */
  readonly strings: readonly string[];
  /** True when it has a default export or exports everything of another module. */
  readonly exportsUnnamed: boolean;
  readonly lineCount: number;
}

/** A node of the syntax tree; the fields depend on its type. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

/** Names of runtimes and of random sources: every use counts, also as a property. */
const DISTINCT: readonly string[] = ["Deno", "Bun", "randomUUID", "getRandomValues"];
/** Globals whose names properties may have. */
const GLOBALS: readonly string[] = ["process", "setTimeout", "setInterval", "setImmediate"];

/** Parses one source. */
export function scan(path: string, text: string): Source {
  const { program } = parse(text, {
    sourceType: "module",
    plugins: ["typescript"],
  });
  const source = (node: Node) => text.slice(node.start, node.end);
  const imports: string[] = [];
  const dynamic: Node[] = [];
  const constants = new Map<string, string>();
  const globals: string[] = [];
  const strings: string[] = [];
  let exportsUnnamed = false;
  const onNode = (node: Node, parent: Node | undefined): void => {
    const { type } = node;
    if (type === "ExportAllDeclaration" || type === "ExportDefaultDeclaration") {
      exportsUnnamed = true;
    } else if (type === "ExportNamespaceSpecifier") exportsUnnamed = true;
    else if (type === "TSImportType") imports.push(literal(node.source as Node) ?? "");
    else if (type === "ImportExpression") dynamic.push(node.source as Node);
    else if (type === "CallExpression" && (node.callee as Node).type === "Import") {
      dynamic.push((node.arguments as Node[])[0]!);
    } else if (type === "VariableDeclarator" && parent?.kind === "const") {
      const value = node.init ? literal(node.init as Node) : undefined;
      if (value !== undefined) constants.set((node.id as Node).name as string, value);
    } else if (isMember(node) && (node.object as Node).name === "globalThis") {
      const name = (node.property as Node).name as string;
      if (node.computed || GLOBALS.includes(name)) globals.push(source(node));
    } else if (isMember(node) && /\bMath\s*\??\.\s*random$/.test(source(node))) {
      globals.push("Math.random");
    } else if (type === "StringLiteral" && parent?.source !== node) {
      strings.push(node.value as string);
    } else if (type === "RegExpLiteral") {
      strings.push(node.pattern as string);
    } else if (type === "TemplateElement") {
      strings.push((node.value as { readonly cooked: string }).cooked);
    } else if (type === "Identifier") {
      const name = node.name as string;
      if (DISTINCT.includes(name)) globals.push(name);
      else if (GLOBALS.includes(name) && !namesProperty(node, parent)) globals.push(name);
    }
    if (/^(Import|ExportNamed|ExportAll)Declaration$/.test(type) && node.source) {
      imports.push(literal(node.source as Node) ?? "");
    }
  };
  walk(program as unknown as Node, undefined, onNode);
  const computedImports: string[] = [];
  for (const argument of dynamic) {
    const module = literal(argument) ?? constants.get(argument.name as string);
    if (module === undefined) computedImports.push(source(argument));
    else imports.push(module);
  }
  const lineCount = text.trimEnd().split("\n").length;
  return { path, imports, computedImports, globals, strings, exportsUnnamed, lineCount };
}

function walk(
  node: Node,
  parent: Node | undefined,
  onNode: (node: Node, parent: Node | undefined) => void,
): void {
  onNode(node, parent);
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child?.type === "string" && typeof child.start === "number") {
        walk(child, node, onNode);
      }
    }
  }
}

function literal(node: Node): string | undefined {
  if (node.type === "TSLiteralType") return literal(node.literal as Node);
  return typeof node.value === "string" ? node.value : undefined;
}

function isMember({ type }: Node): boolean {
  return type === "MemberExpression" || type === "OptionalMemberExpression";
}

/** True for the name of a property, a method or a member of a type. */
function namesProperty(node: Node, parent: Node | undefined): boolean {
  if (parent === undefined || parent.computed === true) return false;
  if (isMember(parent)) return parent.property === node;
  if (parent.type === "PrivateName") return true;
  return parent.key === node && parent.shorthand !== true;
}
