// The files that `lastcall init` writes: the worker, its manifest, its README, and those of deploy.ts.

import { dockerfile, kubernetes, unit } from "./deploy.ts";
import { FIGURES, type Parts, type Project, RUNTIMES } from "./facts.ts";

/** Returns the files of a project by name. */
export function projectFiles(project: Project): Readonly<Record<string, string>> {
  const { name, runtime, engine } = project;
  const parts: Parts = {
    ...project,
    facts: RUNTIMES[runtime]!,
    url: engine.starter.url(name, "."),
    isFile: engine.file !== undefined,
  };
  return {
    "worker.ts": worker(parts),
    ...(runtime === "deno"
      ? { "deno.json": denoManifest(parts) }
      : { "package.json": npmManifest(parts) }),
    "Dockerfile": dockerfile(parts),
    ".dockerignore": "node_modules\n.git\n.env*\n*.db*\n*.kv*\ndata\n",
    "kubernetes.yaml": kubernetes(parts),
    [`${name}.service`]: unit(parts),
    "README.md": readme(parts),
  };
}

function worker({ url, engine, name }: Parts): string {
  const { shutdownTimeoutMs, graceSeconds, port, concurrency } = FIGURES;
  const setting = `process.env["LASTCALL_MAILBOX"] ?? ${JSON.stringify(url)}`;
  const mailbox = engine.inProcess
    ? `// These messages end with the process.
const mailbox = await openMailbox<Job>(${JSON.stringify(url)});
await mailbox.send({ text: "hello" });
`
    : `const mailbox = ${setting};
`;
  return `import process from "node:process";
import { LoopGroup, MailboxLoop${engine.inProcess ? ", openMailbox" : ""} } from "lastcall";

/** The body of a message. */
interface Job {
  readonly text: string;
}

${mailbox}
const jobs = new MailboxLoop<Job>({
  name: ${JSON.stringify(name)},
  mailbox,
  concurrency: ${concurrency},
  handler: ({ body }, { signal }) => {
    signal.throwIfAborted(); // Pass \`signal\` to what you call: it aborts when the work must end.
    console.log(\`handled \${body.text}\`);
  },
});

await new LoopGroup([jobs], {
  shutdownTimeoutMs: ${
    digits(shutdownTimeoutMs)
  }, // less than the ${graceSeconds} s after which the platform kills
  healthPort: Number(process.env["PORT"] ?? ${port}),
}).main();
`;
}

function digits(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, "_");
}

/** Returns the packages of the engine that the runtime does not have, with their versions. */
function clients({ engine: { packages = [], starter }, runtime }: Parts): Record<string, string> {
  const names = starter.builtInto?.includes(runtime) ? [] : packages;
  return Object.fromEntries(names.map((name) => [name, starter.range ?? "*"]));
}

function npmManifest(parts: Parts): string {
  const { name, version, facts, runtime } = parts;
  return json({
    name,
    private: true,
    type: "module",
    scripts: { start: facts.start.join(" "), doctor: "lastcall doctor worker.ts" },
    dependencies: { lastcall: `^${version}`, ...facts.health, ...clients(parts) },
    ...(runtime === "node" && { engines: { node: ">=22.18" } }),
  });
}

function denoManifest(parts: Parts): string {
  const { version, facts, engine: { starter: { unstable } } } = parts;
  const own = `jsr:@lastcall/lastcall@^${version}`;
  const npm = Object.entries(clients(parts)).map(([name, range]) => [name, `npm:${name}@${range}`]);
  return json({
    tasks: { start: facts.start.join(" "), lastcall: `deno run -A ${own}/cli` },
    imports: { lastcall: own, ...Object.fromEntries(npm) },
    ...(unstable && { unstable }),
  });
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function readme({ name, facts, engine, url, isFile, runtime }: Parts): string {
  const { command, startScript } = facts;
  const { graceSeconds, port } = FIGURES;
  const quoted = `'${url}'`;
  const isServer = !isFile && !engine.inProcess;
  const send = engine.inProcess
    ? "The worker sends itself a message. The messages end with the process, so choose another engine when other\nprocesses send them."
    : `Send it a message, in another terminal:

\`\`\`sh
${command} send ${quoted} '{"text":"hello"}'
\`\`\``;
  const env = isServer ? ` -e LASTCALL_MAILBOX=${quoted}` : isFile ? ` -v ${name}:/app/data` : "";
  const secret = isServer
    ? `kubectl create secret generic ${name} --from-literal=mailbox=${quoted}\n`
    : "";
  return `# ${name}

A worker of [lastcall](https://github.com/lastcall/lastcall) that shuts down gracefully. Its messages are in ${engine.name}:
\`${url}\`${engine.inProcess ? "" : ", or where `LASTCALL_MAILBOX` says"}.

\`\`\`sh
${runtime === "deno" ? "" : `${facts.install.split(" --")[0]}\n`}${startScript}
\`\`\`

${send}

Ctrl+C stops the worker after the messages in flight. Its live page is http://localhost:${port}/.

Check the settings before a deploy:

\`\`\`sh
${command} doctor worker.ts --platform kubernetes
\`\`\`

## Docker

\`\`\`sh
docker build -t ${name}:1 .
docker run --init --name ${name} -p ${port}:${port}${env} ${name}:1
docker stop -t ${graceSeconds} ${name}
\`\`\`

## Kubernetes

Push the image, set its name in \`kubernetes.yaml\`, and:

\`\`\`sh
${secret}kubectl apply -f kubernetes.yaml
\`\`\`

## systemd

\`\`\`sh
sudo cp -r . /opt/${name}
sudo cp ${name}.service /etc/systemd/system/
sudo systemctl enable --now ${name}
\`\`\`
`;
}
