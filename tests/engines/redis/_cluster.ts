import { assertEquals } from "@std/assert";
import type { Redis } from "ioredis";
import { eventually, PrivateServer, redis, type ServerKind } from "../_servers.ts";
import { look } from "./_redis.ts";

/** Returns the port between nodes. The default, 10 000 above, does not exist for high ports. */
const busPort = (port: number) => port > 55_000 ? port - 10_000 : port + 10_000;

/** A node of a cluster, which refuses scripts whose keys are not in one slot. */
const clustered: ServerKind = {
  ...redis,
  args: (port, folder) => [
    ...redis.args(port, folder),
    ...["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"],
    ...["--cluster-port", `${busPort(port)}`, "--cluster-node-timeout", "2000"],
  ],
};

const SLOTS = 16_384;

/** A cluster of a test, each node with its share of the slots. */
export class PrivateCluster implements AsyncDisposable {
  readonly #servers: readonly PrivateServer[];
  readonly #looks: readonly ReturnType<typeof look>[];

  private constructor(servers: readonly PrivateServer[]) {
    this.#servers = servers;
    this.#looks = servers.map(({ url }) => look(url));
  }

  /** Starts nodes and joins them to a cluster. */
  static async start(size: number): Promise<PrivateCluster> {
    const starting = Array.from({ length: size }, () => PrivateServer.start(clustered));
    const cluster = new PrivateCluster(await Promise.all(starting));
    const [first] = cluster.#servers;
    for (const [i, node] of cluster.nodes.entries()) {
      const from = Math.floor(i * SLOTS / size);
      const until = Math.floor((i + 1) * SLOTS / size);
      await node.cluster(
        "ADDSLOTS",
        ...Array.from({ length: until - from }, (_, n) => from + n),
      );
      if (i > 0) {
        const { port } = first!;
        await node.call("CLUSTER", "MEET", "127.0.0.1", `${port}`, `${busPort(port)}`);
      }
    }
    for (const node of cluster.nodes) {
      await eventually(async () => {
        const info = await node.cluster("INFO") as string;
        assertEquals(/cluster_state:ok/.test(info), true);
        assertEquals(new RegExp(`cluster_known_nodes:${size}\r`).test(info), true);
      });
    }
    return cluster;
  }

  /** A connection to each node. */
  get nodes(): readonly Redis[] {
    return this.#looks.map(({ redis }) => redis);
  }

  get ports(): readonly number[] {
    return this.#servers.map(({ port }) => port);
  }

  /** The URL of the cluster; it names one node. */
  get url(): string {
    return `redis+cluster://127.0.0.1:${this.ports[0]}`;
  }

  /** Returns the index of the node that has the slot of a mailbox. */
  async ownerOf(name: string): Promise<number> {
    const slot = await this.#slotOf(name);
    const ranges = await this.nodes[0]!.cluster("SLOTS");
    const [, , node] = ranges.find(([from, to]) => from <= slot && slot <= to)!;
    return this.ports.indexOf(node![1]);
  }

  /** Moves the slot of a mailbox with all its keys to another node, one key after another. */
  async move(name: string, to: number): Promise<void> {
    const slot = await this.#slotOf(name);
    const from = await this.ownerOf(name);
    const [source, target] = [this.nodes[from]!, this.nodes[to]!];
    const sourceId = await source.cluster("MYID") as string;
    const targetId = await target.cluster("MYID") as string;
    await target.call("CLUSTER", "SETSLOT", `${slot}`, "IMPORTING", sourceId);
    await source.call("CLUSTER", "SETSLOT", `${slot}`, "MIGRATING", targetId);
    for (;;) {
      const keys = await source.call("CLUSTER", "GETKEYSINSLOT", `${slot}`, "1") as string[];
      if (keys.length === 0) break;
      const place = ["127.0.0.1", `${this.ports[to]}`, "", "0", "5000", "KEYS"];
      await source.call("MIGRATE", ...place, ...keys);
    }
    for (const node of [target, source, ...this.nodes]) {
      await node.call("CLUSTER", "SETSLOT", `${slot}`, "NODE", targetId);
    }
  }

  async #slotOf(name: string): Promise<number> {
    return await this.nodes[0]!.cluster("KEYSLOT", `{lastcall:${name}}`) as number;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const behind of this.#looks) await behind[Symbol.asyncDispose]();
    for (const server of this.#servers) await server[Symbol.asyncDispose]();
  }
}
