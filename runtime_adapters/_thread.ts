import type { EventLoopWatch, EventLoopWatchOptions, ModuleThread } from "../src/runtime.ts";

/**
 * The program of the watchdog thread. It is a string because bundlers and registries would not find a
 * separate module. It writes to standard error directly: `console` in a thread needs the main thread.
 * It kills the process after a second even if the reader of standard error reads nothing.
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
  // This timer is late too: the whole process was suspended, so the event loop is not blocked.
  if (now - looked > 2 * intervalMs) heard = now;
  looked = now;
  const silence = now - heard;
  if (silence <= thresholdMs) return;
  const names = beats.map(({ name, ageMs }) => '"' + name + '" (' + Math.round(ageMs + silence) + " ms)");
  clearInterval(timer);
  report("the event loop is blocked for " + Math.round(silence) + " ms"
    + (names.length > 0 ? ", and with it " + names.join(", ") : "") + ": ending the process", () => {
    process.kill(process.pid, "SIGKILL");
    endFirstProcess();
  });
}, intervalMs);
function report(message, then) {
  let over = false;
  const end = () => { if (!over) { over = true; then(); } };
  setTimeout(end, 1000);
  const record = { at: new Date().toISOString(), source: "lastcall", event: "log", level: "error", message };
  const line = require("node:tty").isatty(2) ? "lastcall: " + message : JSON.stringify(record);
  const bytes = new TextEncoder().encode(line + "\\n");
  if (globalThis.Deno) globalThis.Deno.stderr.write(bytes).then(end, end);
  else fs.write(2, bytes, end);
}
// PID 1 of a container ignores its own SIGKILL, but not a limit of its CPU time.
function endFirstProcess() {
  const { spawnSync } = require("node:child_process");
  const { error } = spawnSync("prlimit", ["--pid", String(process.pid), "--cpu=1:1"]);
  if (error) report("PID 1 of a container cannot kill itself; start it with an init process, as docker run --init does", () => {});
}
`;

/** Returns true in a thread of `node:worker_threads`. */
export function inNodeWorker(): boolean {
  return !globalThis.process.getBuiltinModule("node:worker_threads").isMainThread;
}

/** Watches the event loop from a thread of `node:worker_threads`. */
export function watchEventLoop(options: EventLoopWatchOptions): EventLoopWatch {
  const { Worker } = globalThis.process.getBuiltinModule("node:worker_threads");
  const worker = new Worker(WATCHER, { eval: true, workerData: options });
  worker.unref();
  return {
    beat: (beats) => worker.postMessage(beats),
    stop: async () => void await worker.terminate(),
  };
}

/** The program that hosts a module. It listens before the module is loaded, to lose no message. */
const HOST = `
const { parentPort, workerData } = require("node:worker_threads");
const loading = import(workerData);
loading.catch(() => {}); // each message is answered with the error
parentPort.on("message", ({ number, message }) =>
  loading.then(({ onPost }) => onPost(message)).then(
    () => parentPort.postMessage({ number }),
    (error) => parentPort.postMessage({ number, error: String(error?.stack ?? error) })));
`;

/** Loads a module on a thread of `node:worker_threads`. */
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
