import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, it } from "node:test";
import { assertEquals } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { Child, type Ended, type StartOptions } from "../signals/_child.ts";

/** Examples load the same sources again and again: Node strips the types off them once, and keeps that here. */
const cache = mkdtempSync(join(tmpdir(), "lastcall-examples-"));

/** How to start an example. */
export interface ExampleOptions extends Omit<StartOptions, "wrapper"> {
  /** Set for it beside what the tests have. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts an example by its name, on the runtime that hosts the test. */
export function start(name: string, { env = {}, ...options }: ExampleOptions = {}): Child {
  const variables = Object.entries({ NODE_COMPILE_CACHE: cache, ...env });
  const wrapper = ["env", ...variables.map(([name, value]) => `${name}=${value}`)];
  return Child.start(`../../../examples/${name}`, { ...options, wrapper });
}

/** Waits for the end, which has to have this exit code; gives what was said to either side. */
export async function ended(example: Child, code = 0): Promise<string> {
  const end = await example.exit();
  assertEquals(end.code, code, told(end));
  return `${end.stdout}\n${end.stderr}`;
}

/** Asks it to stop, and waits until it has, well. */
export async function stopped(example: Child, signal: NodeJS.Signals = "SIGTERM"): Promise<string> {
  example.kill(signal);
  return await ended(example);
}

function told({ code, stdout, stderr }: Ended): string {
  return `exit ${code}\n${stdout}\n${stderr}`;
}

/** Examples mostly wait, and take a core only while they start. */
const LANES = 5;

/** Hosts a test, or skips it and says why. */
export type Host = (
  name: string,
  options: { readonly skip: string | false },
  run: () => Promise<void>,
) => void;

/**
 * Makes a host whose tests run several at a time. They start with the first test of the suite, in order, and
 * each test tells how its own went.
 */
export function sideBySide(): Host {
  const queue: (() => Promise<void>)[] = [];
  const lane = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) await next();
  };
  before(() => {
    for (let i = 0; i < LANES; i++) void lane();
  });
  after(() => rmSync(cache, { recursive: true, force: true }));
  return (name, { skip }, run) => {
    const { promise, resolve } = deferred<() => Promise<void>>();
    if (skip === false) {
      queue.push(async () => {
        const running = run();
        await running.catch(() => {}); // its own test tells
        resolve(() => running);
      });
    }
    it(name, { skip }, async () => await (await promise)());
  };
}

/** For tests that run everywhere. */
export const everywhere: { readonly skip: false } = { skip: false };
