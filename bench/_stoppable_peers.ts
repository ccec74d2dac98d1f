// Workers of the peers, which can be stopped.

import { timed } from "./_figures.ts";
import { type Graphile, graphilePeer } from "./fixtures/_postgres_peers.ts";

/** A worker that waits for jobs. */
export interface Stoppable {
  send(): Promise<unknown>;
  /** Resolves with the milliseconds it took, when it has ended. */
  stop(): Promise<number>;
  /** Lets go of all the rest. */
  close(): Promise<unknown>;
}

interface Closing {
  on(event: "error", listener: () => void): void;
  waitUntilReady(): Promise<unknown>;
  close(force?: boolean): Promise<void>;
}

interface BullMQ {
  readonly Queue: new (name: string, options: object) => Closing & {
    add(name: string, data: unknown): Promise<unknown>;
  };
  readonly Worker: new (name: string, handler: () => Promise<void>, options: object) => Closing;
}

/** A worker of BullMQ. */
export async function bullmqStop(
  { Queue, Worker }: BullMQ,
  url: string,
  job: () => Promise<void>,
): Promise<Stoppable> {
  const connection = { url };
  const queue = new Queue("bench", { connection });
  const worker = new Worker("bench", job, { connection });
  for (const it of [queue, worker]) it.on("error", () => {});
  await worker.waitUntilReady();
  return {
    send: () => queue.add("job", {}),
    stop: () => timed(() => worker.close()),
    close: async () => {
      await worker.close();
      await queue.close();
    },
  };
}

/** A runner of graphile-worker. */
export async function graphileStop(
  graphile: Graphile,
  url: string,
  job: () => Promise<void>,
): Promise<Stoppable> {
  const peer = await graphilePeer(graphile, url, "graphile_worker");
  const stop = await peer.work(job);
  return { send: () => peer.send(), stop: () => timed(stop), close: () => peer.close() };
}
