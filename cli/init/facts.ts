// What the files of `lastcall init` share: the figures that must agree, and the runtimes.

import type { EngineRegistration } from "../../src/engines/_kit/registration.ts";

/** The figures that the worker, the container, the pod and the unit share. */
export const FIGURES = {
  shutdownTimeoutMs: 25_000,
  /** What the platform waits before it kills: longer than a shutdown. */
  graceSeconds: 30,
  port: 8080,
  concurrency: 10,
} as const;

/** What the templates need to know about a runtime. */
export interface RuntimeFacts {
  readonly image: string;
  /** The user of the image, and its number. */
  readonly user: string;
  readonly uid: number;
  readonly install: string;
  readonly start: readonly string[];
  /** Evaluates the expression that follows. */
  readonly evaluate: readonly string[];
  /** Runs the command. */
  readonly command: string;
  readonly startScript: string;
  /** The packages of the health port, with their tested versions. */
  readonly health: Readonly<Record<string, string>>;
}

/** The runtimes, by the name that `--runtime` takes. */
export const RUNTIMES: Readonly<Record<string, RuntimeFacts>> = {
  node: {
    image: "node:24-slim",
    user: "node",
    uid: 1000,
    install: "npm install --omit=dev",
    start: ["node", "worker.ts"],
    evaluate: ["node", "-e"],
    command: "npx lastcall",
    startScript: "npm start",
    health: { "hono": "^4.13.0", "@hono/node-server": "^2.1.0" },
  },
  bun: {
    image: "oven/bun:1-slim",
    user: "bun",
    uid: 1000,
    install: "bun install --production",
    start: ["bun", "worker.ts"],
    evaluate: ["bun", "-e"],
    command: "bunx --bun lastcall",
    startScript: "bun run start",
    health: { "hono": "^4.13.0" },
  },
  deno: {
    image: "denoland/deno:2",
    user: "deno",
    uid: 1993,
    install: "deno cache worker.ts",
    start: ["deno", "run", "-A", "worker.ts"],
    evaluate: ["deno", "eval"],
    command: "deno task lastcall",
    startScript: "deno task start",
    health: {},
  },
};

/** What the files are made from. */
export interface Project {
  readonly name: string;
  readonly runtime: string;
  readonly engine: EngineRegistration;
  /** The version of this package. */
  readonly version: string;
}

/** Everything that the templates use. */
export interface Parts extends Project {
  readonly facts: RuntimeFacts;
  /** The mailbox on this machine; in a container and under systemd only for engines with a file. */
  readonly url: string;
  readonly isFile: boolean;
}
