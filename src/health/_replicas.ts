import { parseUrl, show } from "../_checks.ts";
import { redactUrl } from "../engines/_kit/mailbox_url.ts";
import { errorText } from "../errors.ts";
import type { Log } from "../log.ts";
import { CachedQuery, type CachedQueryOptions } from "./_cached_query.ts";
import type { HealthOptions } from "./health_options.ts";
import type { ProcessStatus, ReplicaStatus, Status } from "./status.ts";
import { statusFields } from "./status_check.ts";

/** How long the answer of a replica is fresh. */
const FRESH_MS = 2_000;
const MAX_REPLICAS = 50;
/** A summary has about 1 kB. */
const MAX_ANSWER_BYTES = 1_000_000;

type Answer = Omit<ReplicaStatus, "url" | "reachable" | "error">;

/** What a replica shows of its status. */
const FIELDS: readonly (keyof Answer & keyof Status)[] = [
  ...["process", "phase", "ready", "live", "paused", "totals", "stop", "end"] as const,
];

/** How the queries of replicas are made. */
export type ReplicaQueries = Pick<CachedQueryOptions<unknown>, "timeoutMs" | "clock"> & {
  readonly log: Log;
};

/** Asks other processes for a summary of their status, while clients read the status of this one. */
export class Replicas {
  readonly #own: ProcessStatus;
  readonly #options: ReplicaQueries;
  /** The addresses of the option, or what asks for them. */
  readonly #listed: readonly URL[] | CachedQuery<readonly URL[]>;
  readonly #queries = new Map<string, CachedQuery<Answer>>();
  #published: readonly unknown[] = [];
  #invalid = new Set<unknown>();

  /** @throws {TypeError} for an address that is not a URL with http or https. */
  constructor(
    own: ProcessStatus,
    replicas: NonNullable<HealthOptions["replicas"]>,
    options: ReplicaQueries,
  ) {
    this.#own = own;
    this.#options = options;
    this.#listed = typeof replicas === "function"
      ? new CachedQuery({
        ...options,
        ask: async () => (await replicas()).map(checkAddress),
        fields: { replicas: "list" },
      })
      : replicas.map(checkAddress);
  }

  /**
   * Resolves when the answers are fresh, as far as the replicas are reachable. `published` has the addresses
   * that members have published on a board; entries that are no addresses are logged once and ignored.
   */
  async refresh(published: readonly unknown[]): Promise<void> {
    this.#published = published;
    if (this.#listed instanceof CachedQuery) await this.#listed.refresh(FRESH_MS);
    await Promise.all(this.#addresses().map((address) => this.#query(address).refresh(FRESH_MS)));
  }

  /** Ends the wait for all running queries. */
  abandon(): void {
    if (this.#listed instanceof CachedQuery) this.#listed.abandon();
    for (const query of this.#queries.values()) query.abandon();
  }

  /** Returns the last answers of the replicas, without this process. */
  known(): readonly ReplicaStatus[] {
    return this.#addresses().flatMap((address): readonly ReplicaStatus[] => {
      const { answer, reachable, error } = this.#query(address);
      if (answer?.process?.id === this.#own.id) return [];
      const url = shownAddress(address);
      if (reachable) return [{ url, reachable, ...answer }];
      return [{
        ...{ url, reachable },
        ...(answer?.process && { process: answer.process }),
        ...(error !== undefined && { error: whyNot(error) }),
      }];
    });
  }

  #addresses(): readonly URL[] {
    const listed = this.#listed instanceof CachedQuery ? this.#listed.answer ?? [] : this.#listed;
    const published = this.#published.flatMap((it) => this.#publishedAddress(it));
    const byHref = new Map([...listed, ...published].map((address) => [address.href, address]));
    const addresses = [...byHref.values()].slice(0, MAX_REPLICAS);
    const hrefs = new Set(addresses.map(({ href }) => href));
    for (const href of this.#queries.keys()) if (!hrefs.has(href)) this.#queries.delete(href);
    return addresses;
  }

  #publishedAddress(text: unknown): readonly URL[] {
    const address = parseAddress(text);
    if (address !== undefined) return [address];
    if (!this.#invalid.has(text)) {
      this.#invalid.add(text);
      this.#options.log.warn("health address ignored: expected an http or https URL", {
        replica: typeof text === "string" ? redactUrl(text) : show(text),
      });
    }
    return [];
  }

  #query(address: URL): CachedQuery<Answer> {
    let query = this.#queries.get(address.href);
    if (query === undefined) {
      query = new CachedQuery({
        ...this.#options,
        ask: (signal) => askReplica(address, signal),
        fields: { replica: shownAddress(address) },
      });
      this.#queries.set(address.href, query);
    }
    return query;
  }
}

async function askReplica(address: URL, signal: AbortSignal): Promise<Answer> {
  const { username, password } = address;
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const base = shownAddress(address);
  const response = await fetch(`${base}status?summary=true`, {
    headers: {
      accept: "application/json",
      ...(credentials !== ":" && { authorization: `Basic ${base64(credentials)}` }),
    },
    redirect: "manual",
    signal,
  });
  if (!response.ok) {
    await response.body?.cancel();
    throw new ReplicaError(`answered ${response.status || "with a redirect"}`);
  }
  return answerOf(await limitedText(response));
}

/** Reads a body of bounded length. */
async function limitedText(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length > MAX_ANSWER_BYTES) throw new ReplicaError("the answer is too long");
  }
  return text;
}

function answerOf(text: string): Answer {
  let status: Partial<Status>;
  try {
    status = statusFields(JSON.parse(text));
  } catch {
    status = {};
  }
  if (status.phase !== undefined && status.totals !== undefined) {
    const found = FIELDS.filter((name) => status[name] !== undefined);
    return Object.fromEntries(found.map((name) => [name, status[name]]));
  }
  throw new ReplicaError("is not a health app of lastcall");
}

/** An answer that is not a status. */
class ReplicaError extends Error {
  override readonly name = "ReplicaError";
}

/** Returns the cause of a failed fetch, which has no credentials. */
function whyNot(error: unknown): string {
  if (!(error instanceof Error)) return errorText(error);
  const { message, cause } = error;
  return cause instanceof Error && cause.message !== "" ? cause.message : message;
}

function checkAddress(text: string): URL {
  const address = parseAddress(text);
  if (address !== undefined) return address;
  const given = typeof text === "string" ? show(redactUrl(text)) : show(text);
  throw new TypeError(
    `Invalid replicas: expected URLs of health apps with http or https, got ${given}`,
  );
}

function parseAddress(text: unknown): URL | undefined {
  const address = typeof text === "string" ? parseUrl(text) : undefined;
  return address !== undefined && /^https?:$/.test(address.protocol) ? address : undefined;
}

/** Returns the address without credentials and query, with a slash at its end. */
function shownAddress({ origin, pathname }: URL): string {
  return `${origin}${pathname.replace(/\/*$/, "/")}`;
}

/** Encodes text, of which `btoa` takes only Latin-1. */
function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
