// What each platform does to end a process, where nobody has told it otherwise.

/** How a platform ends a process. */
export interface Platform {
  readonly name: string;
  /** As people call it. */
  readonly title: string;
  /** What asks the process to stop. */
  readonly signal: "SIGTERM" | "SIGINT";
  /** How long after it the process is killed; undefined where nobody does. */
  readonly graceMs?: number;
  /** The environment variable by which a process knows that it runs there. */
  readonly variable?: string;
  /** How to give it this grace; undefined where it cannot be changed. */
  readonly setGrace?: (seconds: number) => string;
  /** Whether it asks for readiness, and sends requests elsewhere when that is red. */
  readonly asksReadiness: boolean;
}

/** All that are known, the more particular ones first. */
export const PLATFORMS: readonly Platform[] = [
  {
    name: "fly",
    title: "Fly.io",
    signal: "SIGINT",
    graceMs: 5_000,
    variable: "FLY_APP_NAME",
    setGrace: (seconds) => `kill_timeout = ${seconds} in fly.toml (at most 300 on shared CPUs)`,
    asksReadiness: true,
  },
  {
    name: "deno-deploy",
    title: "Deno Deploy",
    signal: "SIGINT",
    graceMs: 5_000,
    variable: "DENO_DEPLOYMENT_ID",
    asksReadiness: false,
  },
  {
    name: "cloud-run",
    title: "Cloud Run",
    signal: "SIGTERM",
    graceMs: 10_000,
    variable: "K_SERVICE",
    asksReadiness: false,
  },
  {
    name: "ecs",
    title: "Amazon ECS",
    signal: "SIGTERM",
    graceMs: 30_000,
    variable: "ECS_CONTAINER_METADATA_URI_V4",
    setGrace: (seconds) => `"stopTimeout": ${seconds} of the container (at most 120 on Fargate)`,
    asksReadiness: true,
  },
  {
    name: "kubernetes",
    title: "Kubernetes",
    signal: "SIGTERM",
    graceMs: 30_000,
    variable: "KUBERNETES_SERVICE_HOST",
    setGrace: (seconds) => `terminationGracePeriodSeconds: ${seconds} of the pod`,
    asksReadiness: true,
  },
  {
    name: "systemd",
    title: "systemd",
    signal: "SIGTERM",
    graceMs: 90_000,
    variable: "INVOCATION_ID",
    setGrace: (seconds) => `TimeoutStopSec=${seconds} of the unit`,
    asksReadiness: false,
  },
  {
    name: "docker",
    title: "Docker",
    signal: "SIGTERM",
    graceMs: 10_000,
    setGrace: (seconds) =>
      `docker stop -t ${seconds}, or stop_grace_period: ${seconds}s in Compose`,
    asksReadiness: false,
  },
  {
    name: "none",
    title: "no platform",
    signal: "SIGTERM",
    setGrace: (seconds) => `a grace of ${seconds} s`,
    asksReadiness: false,
  },
];

/** The platform of this name. */
export function platformOf(name: string): Platform {
  return PLATFORMS.find((platform) => platform.name === name) ?? PLATFORMS.at(-1)!;
}

/** The platform that the environment tells of, or none. */
export function detectPlatform(env: Readonly<Record<string, string | undefined>>): Platform {
  return PLATFORMS.find(({ variable }) => variable !== undefined && env[variable]) ??
    platformOf("none");
}
