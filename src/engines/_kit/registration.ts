import type { OffThreadModule } from "../../mailbox/engine.ts";
import type { Mailbox, MailboxOptions } from "../../mailbox/mailbox.ts";
import { countParam, type MailboxUrl } from "./mailbox_url.ts";

/** Opens the mailbox of a URL whose parameters were checked. */
export type MailboxOpener = (
  url: MailboxUrl,
  options: MailboxOptions,
) => Mailbox<unknown> | Promise<Mailbox<unknown>>;

/** How a new project uses an engine. */
export interface EngineStarter {
  /** Returns the URL of a queue on this machine; of an engine with a file, in `folder`. */
  readonly url: (queue: string, folder: string) => string;
  /** The versions of its package that are tested. */
  readonly range?: string;
  /** The runtimes that have a client, and need no package. */
  readonly builtInto?: readonly string[];
  /** The unstable features of Deno that it needs. */
  readonly unstable?: readonly string[];
}

/** Everything that the package needs to know about an engine. It loads nothing before `open`. */
export interface EngineRegistration {
  /** The name for people, as in `engine.label`: `Redis`. */
  readonly name: string;
  /** The schemes of its URLs, the preferred one first. */
  readonly schemes: readonly string[];
  /** The parameters that its URLs may have. */
  readonly parameters: readonly string[];
  /** True when the URL may have other parameters, which go to the client. @default {false} */
  readonly passesParameters?: boolean;
  /** Its URLs as the help of the command shows them, one per form. */
  readonly help: readonly string[];
  /** The optional npm packages that it may need. */
  readonly packages?: readonly string[];
  /** The runtimes on which it works, as `runtime.name` has them. @default {all} */
  readonly runtimes?: readonly string[];
  /** True when its messages end with the process, so that no other process can use them. @default {false} */
  readonly inProcess?: boolean;
  /** Returns the path of the file with the messages, for engines that store them in a file. */
  readonly file?: (url: MailboxUrl) => string | undefined;
  /** What opening a mailbox creates even with `migrate: false`: `the streams of a mailbox on NATS`. */
  readonly alwaysCreates?: string;
  /**
   * Returns what the engine needs to notice workers that died; undefined for a URL where it cannot. A mailbox
   * may learn from its first receive whether it has that, and tells it in `capabilities.ownerDetection`.
   */
  readonly ownerDetection?: (url: MailboxUrl) => string | undefined;
  /** How `lastcall init` uses it. */
  readonly starter: EngineStarter;
  /** Opens a mailbox. */
  readonly open: MailboxOpener;
  /** Opens what extends leases on another thread, for engines with `offThread`. */
  readonly openExtender?: OffThreadModule["openExtender"];
}

/** The parameters of all engines that store messages outside the process. */
export const LIMITS = ["maxSize", "maxBodyBytes"] as const;

/** Returns the options of {@linkcode LIMITS} that the URL sets. */
export function limits(url: MailboxUrl): Record<typeof LIMITS[number], number | undefined> {
  return { maxSize: countParam(url, "maxSize"), maxBodyBytes: countParam(url, "maxBodyBytes") };
}

/** Omits undefined options, which `exactOptionalPropertyTypes` does not allow. */
export function definedOptions<O extends object>(
  options: O,
): { [K in keyof O]?: NonNullable<O[K]> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof O]?: NonNullable<O[K]> };
}
