import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, realpath, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { assert, assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { parseAllDocuments } from "yaml";
import { run } from "../../tools/process.ts";
import { root, runtimeBinary, type RuntimeName, tool } from "../../tools/runtimes.ts";
import { freePort } from "../engines/_servers.ts";
import * as redis from "../engines/redis/_redis.ts";
import { build, type Image } from "./_docker.ts";
import { makeConsumer } from "./consumer.ts";

/** What the sources import, which JSR would install. */
const JSR_PACKAGES = ["commander", "croner", "deno-std", "eventsource-parser"];

// Not in a hook: when packing fails it fails once, not once for every test.
const consumer = await makeConsumer(["hono", "@hono/node-server", "ioredis", ...JSR_PACKAGES]);
after(() => consumer[Symbol.dispose]());
/** Beside the consumer, so that projects do not find its packages. */
const projects = await realpath(await mkdtemp(join(tmpdir(), "lastcall-init-")));
after(() => rmSync(projects, { recursive: true, force: true }));
const bin = join(consumer.folder, "node_modules", "lastcall", "dist", "cli", "bin.js");

/** A project that init wrote, without network: it installs the packed package, and links the other ones. */
interface Project {
  readonly runtime: RuntimeName;
  readonly folder: string;
  readonly image: Image;
  /** Returns a file of the project as init wrote it. */
  read(file: string): string;
}

async function makeProject(runtime: RuntimeName, engine: string, name: string): Promise<Project> {
  const folder = join(projects, name);
  const options = ["--runtime", runtime, "--engine", engine];
  await consumer.run(runtimeBinary("node"), bin, "init", folder, ...options);
  const files = ["worker.ts", "Dockerfile", "README.md", "kubernetes.yaml", `${name}.service`];
  const written = new Map(files.map((file) => [file, readFileSync(join(folder, file), "utf8")]));
  const linked = await (runtime === "deno" ? denoOffline(folder) : npmOffline(folder));
  const image = await build(folder, {
    into: join(projects, `${name}.image`),
    env: { npm_config_offline: "true", npm_config_audit: "false" },
    beforeRun: runtime === "deno" ? linkModules : () => Promise.resolve(),
  });
  if (runtime !== "deno") {
    for (const name of linked) {
      const link = join(image.folder, "node_modules", name);
      await mkdir(dirname(link), { recursive: true });
      await symlink(join(root, "node_modules", name), link, "dir");
    }
  }
  return { runtime, folder, image, read: (file) => written.get(file)! };
}

/** Makes the manifest install the tarball, and returns the other packages. */
async function npmOffline(folder: string): Promise<readonly string[]> {
  const path = join(folder, "package.json");
  const manifest = JSON.parse(await readFile(path, "utf8"));
  const { lastcall: _own, ...others } = manifest.dependencies;
  manifest.dependencies = { lastcall: `file:${consumer.tarball}` };
  await writeFile(path, JSON.stringify(manifest));
  return Object.keys(others);
}

/** Makes the `jsr:` specifiers of the manifest mean the sources of this repository. */
async function denoOffline(folder: string): Promise<readonly string[]> {
  const path = join(folder, "deno.json");
  const manifest = JSON.parse(await readFile(path, "utf8"));
  const links = ["", "tools/std/assert", "tools/std/async"].map((it) => join(root, it));
  await writeFile(path, JSON.stringify({ ...manifest, links, nodeModulesDir: "manual" }));
  return [];
}

async function linkModules(folder: string): Promise<void> {
  await symlink(join(consumer.folder, "node_modules"), join(folder, "node_modules"), "dir");
}

/** Runs a line of a README in the folder of the image. */
async function shell({ image }: Project, line: string): Promise<string> {
  const { code, output } = await run("sh", ["-c", line], { cwd: image.folder });
  assert(code === 0, `${line} ended with code ${code}:\n${output}`);
  return output;
}

/** A worker that runs as the container would run it. */
class Container implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown[]>;
  #output = "";

  constructor(image: Image, env: Readonly<Record<string, string>>) {
    const [program = "", ...args] = image.command;
    this.#child = spawn(runtimeBinary(program as RuntimeName), args, {
      cwd: image.folder,
      env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...image.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#exited = once(this.#child, "close");
    for (const stream of [this.#child.stdout!, this.#child.stderr!]) {
      stream.setEncoding("utf8").on("data", (text) => {
        this.#output += text;
        this.#child.emit("output");
      });
    }
  }

  get output(): string {
    return this.#output;
  }

  /** Waits until the worker has printed this text. */
  async says(text: string): Promise<void> {
    while (!this.#output.includes(text)) {
      const ended = this.#exited.then(() => {
        throw new Error(`the worker ended without "${text}":\n${this.#output}`);
      });
      await Promise.race([once(this.#child, "output"), ended]);
    }
  }

  /** Waits until the probe answers 200. */
  async answers(url: string): Promise<void> {
    for (;;) {
      const status = await fetch(url).then(({ status }) => status, () => 0);
      if (status === 200) return;
      assert([0, 503].includes(status), `${url} answered ${status}`);
      const over = await Promise.race([this.#exited, sleep(50)]);
      assert(over === undefined, `the worker ended before ${url} answered:\n${this.#output}`);
    }
  }

  /** Stops the worker as platforms do, and returns its exit code. */
  async stop(): Promise<unknown> {
    this.#child.kill("SIGTERM");
    const [code] = await this.#exited;
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }
}

function sleep(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined));
}

/** Runs the image, sends a message with the command of the README, and stops the image. */
async function tryOut(project: Project, mailbox: string | undefined): Promise<void> {
  const { image, read, runtime } = project;
  const port = await freePort();
  const env = { PORT: `${port}`, ...(mailbox !== undefined && { LASTCALL_MAILBOX: mailbox }) };
  await using container = new Container(image, env);
  const [pod] = parseAllDocuments(read("kubernetes.yaml")).map((it) => it.toJS());
  const { containers: [spec], terminationGracePeriodSeconds } = pod.spec.template.spec;
  for (const { httpGet: { path, port: probed } } of [spec.readinessProbe, spec.livenessProbe]) {
    const { containerPort } = spec.ports.find(({ name }: { name: string }) => name === probed);
    assertEquals(containerPort, image.port);
    await container.answers(`http://127.0.0.1:${port}${path}`);
  }
  const [send] = /^.* send '.*$/m.exec(read("README.md")) ?? [];
  const url = mailbox ?? image.env["LASTCALL_MAILBOX"];
  if (url === undefined) assertEquals(send, undefined); // messages in memory
  else {assertStringIncludes(
      await shell(project, send!.replace(/send '[^']*'/, `send '${url}'`)),
      "sent ",
    );}
  await container.says("handled hello");
  const [program = "", ...args] = image.healthCheck;
  const check = args.map((it) => it.replace(`:${image.port}/`, `:${port}/`));
  assertEquals((await run(runtimeBinary(program as RuntimeName), check)).code, 0);
  assertEquals(program, runtime);
  const began = performance.now();
  assertEquals(await container.stop(), 0, container.output);
  assertGreater(terminationGracePeriodSeconds * 1_000, performance.now() - began);
}

const RUNTIMES: readonly RuntimeName[] = ["node", "bun", "deno"];

for (const runtime of RUNTIMES) {
  test(`what init writes for ${runtime} and sqlite is built, type-checked, run and stopped`, async () => {
    const name = `${runtime}-jobs`;
    const project = await makeProject(runtime, "sqlite", name);
    await tryOut(project, undefined);
    const [doctor] = /^.* doctor .*$/m.exec(project.read("README.md")) ?? [];
    assertStringIncludes(await shell(project, doctor!), `worker.ts runs ${name}`);
    if (runtime === "deno") {
      const { folder: cwd } = project;
      await symlink(join(root, "node_modules"), join(cwd, "node_modules"), "dir"); // with all types
      const { code, output } = await run(runtimeBinary("deno"), ["check", "worker.ts"], { cwd });
      assertEquals(code, 0, output);
    } else await typeCheck(project);
  });

  test(`what init writes for ${runtime} and redis works on a server`, redis.gate, async () => {
    const name = `${runtime}-${crypto.randomUUID().slice(0, 8)}`;
    try {
      await tryOut(await makeProject(runtime, "redis", name), `${redis.url}?queue=${name}`);
    } finally {
      await redis.cleanUp(name);
    }
  });

  test(`what init writes for ${runtime} and memory works`, async () => {
    await tryOut(await makeProject(runtime, "memory", `${runtime}-memory`), undefined);
  });
}

async function typeCheck({ image: { folder } }: Project): Promise<void> {
  const compilerOptions = {
    ...{ strict: true, noEmit: true, target: "es2022", module: "nodenext", skipLibCheck: true },
    ...{ types: ["node"], typeRoots: [join(root, "node_modules", "@types")] },
    ...{ lib: ["es2022", "esnext.disposable"], erasableSyntaxOnly: true },
  };
  await writeFile(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions, files: ["worker.ts"] }),
  );
  const { code, output } = await run(tool("tsc"), ["-p", "tsconfig.json"], { cwd: folder });
  assertEquals(code, 0, output);
}

test("the doctor accepts what init writes, with the grace periods of its files", async () => {
  const { folder } = (await makeProject("node", "sqlite", "checked")).image;
  const doctor = async (...flags: string[]) =>
    await run(runtimeBinary("node"), [bin, "doctor", "worker.ts", ...flags], { cwd: folder });
  const unit = await readFile(join(folder, "checked.service"), "utf8");
  const [, stop] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? [];
  const readme = await readFile(join(folder, "README.md"), "utf8");
  const [, docker] = /^docker stop -t (\d+) /m.exec(readme) ?? [];
  for (
    const flags of [
      ["--platform", "kubernetes"],
      ["--platform", "systemd", "--grace", `${stop}s`],
      ["--platform", "docker", "--grace", `${docker}s`],
    ]
  ) {
    const { code, output } = await doctor(...flags);
    assertEquals(code, 0, output);
    assertStringIncludes(output, "all checks passed");
  }
});

test("the Kubernetes manifest of init stops, probes and confines the worker", async () => {
  const { read, image } = await makeProject("node", "redis", "pods");
  const documents = parseAllDocuments(read("kubernetes.yaml"));
  assertEquals(documents.flatMap(({ errors }) => errors), []);
  const [deployment] = documents.map((it) => it.toJS());
  assertEquals([deployment.apiVersion, deployment.kind], ["apps/v1", "Deployment"]);
  const { spec } = deployment;
  assertEquals(spec.strategy.rollingUpdate, { maxUnavailable: 0, maxSurge: 1 });
  assertEquals(spec.selector.matchLabels, spec.template.metadata.labels);
  const pod = spec.template.spec;
  const [, timeout = ""] = /shutdownTimeoutMs: ([\d_]+)/.exec(read("worker.ts")) ?? [];
  assertGreater(pod.terminationGracePeriodSeconds * 1_000, Number(timeout.replace("_", "")));
  assertEquals([pod.securityContext.runAsNonRoot, image.user], [true, "node"]);
  const [container] = pod.containers;
  assertEquals(container.env, [{
    name: "LASTCALL_MAILBOX",
    valueFrom: { secretKeyRef: { name: "pods", key: "mailbox" } },
  }]);
  assertStringIncludes(
    read("README.md"),
    "kubectl create secret generic pods --from-literal=mailbox=",
  );
  assertEquals(Object.keys(container.resources), ["requests", "limits"]);
  assertEquals(container.securityContext.capabilities, { drop: ["ALL"] });
});

test("systemd accepts the units of init", async (t) => {
  const all = await Promise.all(RUNTIMES.map((it) => makeProject(it, "sqlite", `${it}-unit`)));
  for (const { read, runtime, folder } of all) {
    const name = `${runtime}-unit`;
    const unit = read(`${name}.service`);
    const value = (key: string) => new RegExp(`^${key}=(.*)$`, "m").exec(unit)?.[1];
    assertEquals([value("KillSignal"), value("Restart")], ["SIGTERM", "on-failure"]);
    const [, timeout = ""] = /shutdownTimeoutMs: ([\d_]+)/.exec(read("worker.ts")) ?? [];
    assertGreater(Number(value("TimeoutStopSec")) * 1_000, Number(timeout.replace("_", "")));
    assertStringIncludes(value("ExecStart")!, ` ${runtime} `);
    const path = join(folder, `${name}.service`);
    const verified = await run("systemd-analyze", ["verify", path]).catch(() => undefined);
    if (verified === undefined) t.diagnostic("skipped: this machine has no systemd-analyze");
    else assertEquals({ code: verified.code, output: verified.output }, { code: 0, output: "" });
  }
});
