// The files of `lastcall init` for Docker, Kubernetes and systemd.

import { FIGURES, type Parts } from "./facts.ts";

/** Returns the Dockerfile. */
export function dockerfile({ facts, runtime, isFile, engine, name }: Parts): string {
  const { image, user, install, start, evaluate } = facts;
  const check =
    `fetch("http://localhost:${FIGURES.port}/health/live").then(({ ok }) => process.exit(ok ? 0 : 1))`;
  const owned = [...(isFile ? ["data"] : []), ...(runtime === "deno" ? ["/deno-dir"] : [])];
  const own = [
    ...(isFile ? ["mkdir data"] : []),
    ...(owned.length > 0 ? [`chown -R ${user} ${owned.join(" ")}`] : []),
  ].join(" && ");
  const lines = runtime === "deno"
    ? [`FROM ${image}`, "WORKDIR /app", "COPY . .", `RUN ${install} && ${own}`]
    : [
      `FROM ${image} AS dependencies`,
      "WORKDIR /app",
      `COPY package.json ${runtime === "bun" ? "bun.lock" : "package-lock.json"}* ./`,
      `RUN ${install}`,
      "",
      `FROM ${image}`,
      "WORKDIR /app",
      "ENV NODE_ENV=production",
      "COPY --from=dependencies /app/node_modules ./node_modules",
      "COPY . .",
      ...(own === "" ? [] : [`RUN ${own}`]),
    ];
  return [
    ...lines,
    ...(isFile
      ? [`ENV LASTCALL_MAILBOX=${engine.starter.url(name, "./data")}`, "VOLUME /app/data"]
      : []),
    `USER ${user}`,
    `EXPOSE ${FIGURES.port}`,
    "STOPSIGNAL SIGTERM",
    `HEALTHCHECK --interval=30s --start-period=10s CMD ${array([...evaluate, check])}`,
    "# The runtime itself, so that signals arrive: no shell and no package manager in front of it.",
    `CMD ${array(start)}`,
    "",
  ].join("\n");
}

function array(words: readonly string[]): string {
  return `[${words.map((word) => JSON.stringify(word)).join(", ")}]`;
}

/** Returns the manifest for Kubernetes. */
export function kubernetes({ name, facts: { uid }, isFile, engine }: Parts): string {
  const { shutdownTimeoutMs, graceSeconds, port } = FIGURES;
  const many = !isFile && !engine.inProcess;
  const env = many
    ? `          env:
            - name: LASTCALL_MAILBOX
              valueFrom: { secretKeyRef: { name: ${name}, key: mailbox } }
`
    : "";
  const mount = isFile
    ? `          volumeMounts:
            - { name: data, mountPath: /app/data }
      volumes:
        - { name: data, persistentVolumeClaim: { claimName: ${name} } }
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: ${name}
spec:
  accessModes: [ReadWriteOncePod]
  resources: { requests: { storage: 1Gi } }
`
    : "";
  return `# A stop: SIGTERM, at most ${
    shutdownTimeoutMs / 1_000
  } s to finish the messages in flight, and SIGKILL after ${graceSeconds} s.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
spec:
  replicas: ${many ? 2 : 1}
  strategy: ${
    isFile
      ? "{ type: Recreate } # one pod at a time has the file"
      : "{ type: RollingUpdate, rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } }"
  }
  selector: { matchLabels: { app: ${name} } }
  template:
    metadata:
      labels: { app: ${name} }
    spec:
      terminationGracePeriodSeconds: ${graceSeconds} # more than shutdownTimeoutMs in worker.ts
      shareProcessNamespace: true # PID 1 would ignore the SIGKILL of its own watchdog
      securityContext:
        { runAsNonRoot: true, runAsUser: ${uid}, fsGroup: ${uid}, seccompProfile: { type: RuntimeDefault } }
      containers:
        - name: ${name}
          image: ${name}:1
${env}          ports:
            - { name: health, containerPort: ${port} }
          readinessProbe:
            httpGet: { path: /health/ready, port: health }
            periodSeconds: 5
          livenessProbe:
            httpGet: { path: /health/live, port: health }
            periodSeconds: 10
            timeoutSeconds: 5
          resources: { requests: { cpu: 100m, memory: 128Mi }, limits: { memory: 256Mi } }
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }
${mount}`;
}

/** Returns the unit of systemd. */
export function unit({ name, facts: { start }, runtime, isFile, engine }: Parts): string {
  const { shutdownTimeoutMs, graceSeconds } = FIGURES;
  const state = isFile
    ? `StateDirectory=${name}
Environment="LASTCALL_MAILBOX=${engine.starter.url(name, `/var/lib/${name}`)}"
`
    : "";
  const cache = runtime === "deno"
    ? `CacheDirectory=${name}
Environment=DENO_DIR=/var/cache/${name}
`
    : "";
  return `[Unit]
Description=Worker ${name}
Wants=network-online.target
After=network-online.target

[Service]
WorkingDirectory=/opt/${name}
ExecStart=/usr/bin/env ${start.join(" ")}
${state}${cache}# LASTCALL_MAILBOX and other settings, if the file exists.
EnvironmentFile=-/etc/${name}.env
KillSignal=SIGTERM
KillMode=mixed
# More than the ${shutdownTimeoutMs / 1_000} s of shutdownTimeoutMs in worker.ts.
TimeoutStopSec=${graceSeconds}
Restart=on-failure
RestartSec=5
DynamicUser=yes
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes

[Install]
WantedBy=multi-user.target
`;
}
