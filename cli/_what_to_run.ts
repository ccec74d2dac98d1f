// What a module offers to `run`: a handler, loops, or a group. Told by shape and never by class, since
// the module may have a copy of the package of its own.

import type { Handler, LoopGroup, MailboxLoopOptions, Runnable } from "../mod.ts";
import { checkRunnable } from "../src/lifecycle/runnable.ts";
import { textOf, usageError } from "./_errors.ts";
import type { Exports } from "./_load_module.ts";

/** Options that a module may add to the loop of its handler. */
export type HandlerOptions = Partial<MailboxLoopOptions<unknown>>;

/** What is to be run. */
export type WhatToRun =
  | {
    readonly kind: "handler";
    readonly handler: Handler<unknown>;
    readonly options: HandlerOptions;
  }
  | { readonly kind: "loops"; readonly loops: readonly Runnable[] }
  | { readonly kind: "group"; readonly group: Pick<LoopGroup, "main"> };

const EXPECTED = "a handler function, a loop, several loops, or a LoopGroup";

/** Finds it: the default export, or else the named ones. */
export async function whatToRun(path: string, exports: Exports): Promise<WhatToRun> {
  if (exports["default"] !== undefined) {
    const found = offer(path, "default", await exports["default"], exports);
    if (found !== undefined) return found;
    throw usageError(
      `The default export of ${path} cannot be run: expected ${EXPECTED}, ` +
        `got ${kindOf(await exports["default"])}`,
    );
  }
  return fromNames(path, exports);
}

function fromNames(path: string, exports: Exports): WhatToRun {
  const named = Object.entries(exports).filter(([name]) => name !== "options");
  const offers = named.flatMap(([name, value]) => {
    const found = offer(path, name, value, exports);
    return found === undefined ? [] : [{ name, found }];
  });
  const of = <K extends WhatToRun["kind"]>(kind: K) =>
    offers.filter(({ found }) => found.kind === kind) as {
      readonly name: string;
      readonly found: WhatToRun & { readonly kind: K };
    }[];
  // The loops of a group are often exported as well.
  const groups = of("group");
  if (groups.length === 1) return groups[0]!.found;
  if (groups.length > 1) throw several(path, "groups", groups);
  const loops = [...new Set(of("loops").flatMap(({ found }) => found.loops))];
  if (loops.length > 0) return { kind: "loops", loops };
  const handlers = of("handler");
  const handler = handlers.find(({ name }) => name === "handler") ?? handlers[0];
  if (handler === undefined) {
    const names = named.map(([name]) => name).join(", ") || "nothing";
    throw usageError(`${path} exports nothing to run: expected ${EXPECTED}, got ${names}`);
  }
  if (handlers.length > 1 && handler.name !== "handler") throw several(path, "functions", handlers);
  return handler.found;
}

function offer(
  path: string,
  name: string,
  value: unknown,
  exports: Exports,
): WhatToRun | undefined {
  if (isGroup(value)) return { kind: "group", group: value };
  if (typeof value === "function") {
    if (isClass(value)) return undefined;
    return {
      kind: "handler",
      handler: value as Handler<unknown>,
      options: optionsOf(path, exports),
    };
  }
  if (looksRunnable(value)) return { kind: "loops", loops: [checkLoop(path, name, value)] };
  if (Array.isArray(value) && value.length > 0 && value.some(looksRunnable)) {
    return { kind: "loops", loops: value.map((it) => checkLoop(path, name, it)) };
  }
  return undefined;
}

function isGroup(value: unknown): value is LoopGroup {
  const { loops, main, run } = Object(value);
  return Array.isArray(loops) && typeof main === "function" && typeof run === "function";
}

function looksRunnable(value: unknown): boolean {
  const { run, shutdown } = Object(value);
  return typeof run === "function" && typeof shutdown === "function";
}

function checkLoop(path: string, name: string, value: unknown): Runnable {
  try {
    return checkRunnable(value, `The export "${name}" of ${path}`);
  } catch (error) {
    throw usageError(textOf(error), { cause: error });
  }
}

function optionsOf(path: string, { options = {} }: Exports): HandlerOptions {
  if (typeof options === "object" && options !== null) return options;
  throw usageError(`The export "options" of ${path} must be an object with options of MailboxLoop`);
}

function isClass(value: object): boolean {
  return /^class\b/.test(Function.prototype.toString.call(value));
}

function kindOf(value: unknown): string {
  if (typeof value === "function") return "a class: export an instance of it";
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "an array without loops" : `an object with ${Object.keys(value)}`;
}

function several(path: string, what: string, found: readonly { readonly name: string }[]): Error {
  const names = found.map(({ name }) => name).join(", ");
  return usageError(
    `${path} exports several ${what}, ${names}: make one of them the default export`,
  );
}
