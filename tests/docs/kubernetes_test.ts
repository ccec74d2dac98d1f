import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  assert,
  assertEquals,
  assertGreater,
  assertLess,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { parseAllDocuments } from "yaml";
import { InMemoryMailbox, LoopGroup, MailboxLoop } from "../../mod.ts";
import { healthApp } from "../../src/health/mod.ts";
import { root } from "../../tools/runtimes.ts";
import { documents } from "./_documents.ts";

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: number };
}

interface Deployment {
  readonly kind: "Deployment";
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly {
          readonly command: readonly string[];
          readonly env?: readonly { readonly name: string; readonly value: string }[];
          readonly ports: readonly { readonly containerPort: number }[];
          readonly readinessProbe: Probe;
          readonly livenessProbe: Probe;
          readonly lifecycle?: unknown;
        }[];
      };
    };
  };
}

interface ScaledObject {
  readonly kind: "ScaledObject";
  readonly spec: {
    readonly scaleTargetRef: { readonly name: string };
    readonly minReplicaCount: number;
    readonly maxReplicaCount: number;
    readonly triggers: readonly {
      readonly type: string;
      readonly metadata: Readonly<Record<string, string>>;
    }[];
  };
}

type Manifest = Deployment | ScaledObject | { readonly kind: "Service" };

/** The manifests of a text, which must be YAML without errors and warnings. */
function parse(place: string, text: string): readonly Manifest[] {
  return parseAllDocuments(text).map((document) => {
    assertEquals([...document.errors, ...document.warnings], [], place);
    return document.toJS();
  });
}

const ofDocuments = documents.flatMap(({ path, blocks }) =>
  blocks.filter(({ language, text }) => language === "yaml" && text.includes("kind: "))
    .map(({ line, text }) => ({ place: `${path}:${line}`, manifests: parse(path, text) }))
);
const ofExamples = globSync("examples/**/*.yaml", { cwd: root }).map((path) => ({
  place: path,
  manifests: parse(path, readFileSync(join(root, path), "utf8")),
}));
const all = [...ofDocuments, ...ofExamples];

/** What a container gets from its environment, by name. */
function environment({ spec }: Deployment): ReadonlyMap<string, string> {
  const entries = spec.template.spec.containers.flatMap(({ env = [] }) => env);
  return new Map(entries.map(({ name, value }) => [name, value]));
}

/** A stop must end before the kubelet kills. `shutdownTimeoutMs` is that of operations.md by default. */
function checkGrace(deployment: Deployment): void {
  const { terminationGracePeriodSeconds: grace } = deployment.spec.template.spec;
  const variables = environment(deployment);
  const timeoutMs = Number(variables.get("SHUTDOWN_TIMEOUT_MS") ?? 25_000);
  assertGreater(grace * 1_000, timeoutMs, "the grace period must be longer than a stop");
  assertLess(Number(variables.get("UNREADY_DELAY_MS") ?? 0), timeoutMs);
}

const mails = new InMemoryMailbox<string>("mails");
const app = healthApp(new LoopGroup([new MailboxLoop({ mailbox: mails, handler: () => {} })]));

for (const { place, manifests } of all) {
  for (const manifest of manifests) {
    if (manifest.kind === "Deployment") {
      const { name } = manifest.metadata;
      test(`${place}: a stop of ${name} fits into its grace period`, () => checkGrace(manifest));

      test(`${place}: the probes of ${name} are paths that exist`, async () => {
        for (const container of manifest.spec.template.spec.containers) {
          const ports = container.ports.map(({ containerPort }) => containerPort);
          for (const { httpGet } of [container.readinessProbe, container.livenessProbe]) {
            assert(ports.includes(httpGet.port), `${httpGet.port} is not open`);
            assert((await app.request(httpGet.path)).status !== 404, httpGet.path);
          }
        }
      });

      test(`${place}: the signal reaches ${name} at once`, () => {
        for (const { command, lifecycle } of manifest.spec.template.spec.containers) {
          assert(["node", "bun", "deno"].includes(command[0]!), "a shell keeps the signal");
          assertEquals(lifecycle, undefined, "a preStop hook delays the signal");
        }
      });
    }

    if (manifest.kind === "ScaledObject") {
      const { scaleTargetRef, minReplicaCount, maxReplicaCount, triggers } = manifest.spec;
      test(`${place}: KEDA scales a deployment by a metric of its mailbox`, async () => {
        const target = manifests.find((it): it is Deployment =>
          it.kind === "Deployment" && it.metadata.name === scaleTargetRef.name
        );
        assert(target, `there is no deployment ${scaleTargetRef.name}`);
        const mailbox = new URL(environment(target).get("MAILBOX_URL")!).searchParams.get("queue");
        const metrics = await (await app.request("/metrics")).text();
        for (const { metadata: { query = "", threshold } } of triggers) {
          const [, metric, labels = ""] = /(lastcall_\w+)\{([^}]*)\}/.exec(query) ?? [];
          assertStringIncludes(labels, `mailbox="${mailbox}"`);
          const [, states = ""] = /state=~"([^"]+)"/.exec(labels) ?? [];
          for (const state of states.split("|")) {
            assertStringIncludes(metrics, `${metric}{mailbox="${mailbox}",state="${state}"}`);
          }
          assertGreater(Number(threshold), 0);
        }
        assert(minReplicaCount > 0, "without a pod no process reports the metric");
        assertLess(minReplicaCount, maxReplicaCount);
      });
    }
  }
}

test("the guides and an example have deployments, and one is scaled by KEDA", () => {
  const kinds = all.flatMap(({ manifests }) => manifests.map(({ kind }) => kind));
  assertEquals(kinds.filter((kind) => kind === "Deployment").length, 4);
  assertEquals(kinds.filter((kind) => kind === "ScaledObject").length, 1);
});

test("a grace period that is as long as a stop is reported", () => {
  const [deployment] = parse(
    "too short",
    `
kind: Deployment
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 30
      containers: [{ env: [{ name: SHUTDOWN_TIMEOUT_MS, value: "30000" }] }]
`,
  );
  assertThrows(() => checkGrace(deployment as Deployment), Error, "must be longer than a stop");
});
