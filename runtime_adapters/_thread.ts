import type { EventLoopWatch, EventLoopWatchOptions, ModuleThread } from "../src/runtime.ts";

/**
 * The thread's program, as text: a module of its own would have to be found again by every bundler
 * and every registry. It writes to standard error by itself, since a console in a thread needs the main
 * thread, and ends the process a moment later also where the reader of standard error takes nothing.
 */
const WATCHER = `
const { parentPort, workerData } = require("node:worker_threads");
const fs = require("node:fs");
const process = require("node:process");
const { thresholdMs, intervalMs } = workerData;
let heard = performance.now(), looked = heard, beats = [];
parentPort.on("message", (message) => { heard = performance.now(); beats = message; });
const timer = setInterval(() => {
  const now = performance.now();
  // Late itself: the whole process was suspended, and nobody is to blame.
  if (now - looked > 2 * intervalMs) heard = now;
  looked = now;
  const silence = now - heard;
  if (silence <= thresholdMs) return;
  const names = beats.map(({ name, ageMs }) => '"' + name + '" (' + Math.round(ageMs + silence) + " ms)");
  clearInterval(timer);
  tell("the event loop is blocked for " + Math.round(silence) + " ms"
    + (names.length > 0 ? ", and with it " + names.join(", ") : "") + ": ending the process", () => {
    process.kill(process.pid, "SIGKILL");
    endFirstProcess();
  });
}, intervalMs);
function tell(message, then) {
  let over = false;
  const end = () => { if (!over) { over = true; then(); } };
  setTimeout(end, 1000);
  const record = { at: new Date().toISOString(), source: "lastcall", event: "log", level: "error", message };
  const line = require("node:tty").isatty(2) ? "lastcall: " + message : JSON.stringify(record);
  const bytes = new TextEncoder().encode(line + "\\n");
  if (globalThis.Deno) globalThis.Deno.stderr.write(bytes).then(end, end);
  else fs.write(2, bytes, end);
}
// The first process of a container is immune to its own SIGKILL, but not to a limit of its time.
function endFirstProcess() {
  const { spawnSync } = require("node:child_process");
  const { error } = spawnSync("prlimit", ["--pid", String(process.pid), "--cpu=1:1"]);
  if (error) tell("the first process of a container cannot end itself; start it with an init, as docker run --init does", () => {});
}
`;

/** Returns true in a thread that `node:worker_threads` has started. */
export function inNodeWorker(): boolean {
  return !globalThis.process.getBuiltinModule("node:worker_threads").isMainThread;
}

/** Watches the event loop from a thread, on every runtime that has Node's worker threads. */
export function watchEventLoop(options: EventLoopWatchOptions): EventLoopWatch {
  const { Worker } = globalThis.process.getBuiltinModule("node:worker_threads");
  const worker = new Worker(WATCHER, { eval: true, workerData: options });
  worker.unref();
  return {
    beat: (beats) => worker.postMessage(beats),
    stop: async () => void await worker.terminate(),
  };
}

/** Listens at once: what is posted while the module is being loaded must not be lost. */
const HOST = `
const { parentPort, workerData } = require("node:worker_threads");
const loading = import(workerData);
loading.catch(() => {}); // every message is answered with it
parentPort.on("message", ({ number, message }) =>
  loading.then(({ onPost }) => onPost(message)).then(
    () => parentPort.postMessage({ number }),
    (error) => parentPort.postMessage({ number, error: String(error?.stack ?? error) })));
`;

/** Hosts a module on a thread, on every runtime that has Node's worker threads. */
export function startThread(address: string): ModuleThread {
  const { Worker } = globalThis.process.getBuiltinModule("node:worker_threads");
  const worker = new Worker(HOST, { eval: true, workerData: address });
  const answers = new Map<number, (error?: unknown) => void>();
  const end = (error: unknown) => answers.forEach((answer) => answer(error));
  worker.on("message", ({ number, error }) => answers.get(number)?.(error));
  worker.on("error", end);
  worker.on("exit", () => end("The thread has ended"));
  worker.unref();
  let last = 0;
  return {
    post(message) {
      const number = ++last;
      worker.postMessage({ number, message });
      return new Promise((resolve, reject) => {
        answers.set(number, (error) => {
          answers.delete(number);
          if (error === undefined) resolve();
          else reject(new Error(`The thread of ${address} failed: ${error}`));
        });
      });
    },
    stop: async () => void await worker.terminate(),
  };
}
