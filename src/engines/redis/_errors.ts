import { errorText } from "../../errors.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** What a client threw, as callers of a mailbox know it. */
export function connectionError(what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = textOf(error);
  return new MailboxConnectionError(`Redis failed to ${what}: ${text}${advice(text)}`, {
    cause: withoutCommand(error),
  });
}

function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : errorText(error);
  // With no retries allowed, this is how a client says it.
  return /max retries per request/.test(text) ? "the connection is lost" : text.replace(/\.$/, "");
}

/** True when the server does not know a script: it was restarted, or somebody has flushed them. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

/** True for what {@linkcode connectionError} made of a refusal because memory is full. */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error &&
    /^-?OOM/.test(error.cause.message);
}

/** Clients hang the command on their errors, with all it had: bodies, and passwords on connecting. */
export function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error) || !("command" in error)) return error;
  const { name, message, stack } = error;
  return Object.assign(new Error(message), { name, stack });
}

function advice(text: string): string {
  if (/ECONNREFUSED|ENOTFOUND|ETIMEDOUT|closed|writeable|is lost/i.test(text)) {
    return "; is the server there? It is tried again with the next call";
  }
  if (/WRONGPASS|NOAUTH|NOPERM/.test(text)) return "; check the user, the password and the ACL";
  if (/^-?OOM/.test(text)) return "; the server has no memory left: nothing was stored";
  if (/^(MOVED|ASK|CLUSTERDOWN|CROSSSLOT)\b/.test(text)) {
    return "; the server is one node of a cluster: use the URL redis+cluster://host:port, or hand in a " +
      "Cluster of ioredis";
  }
  if (/cluster support disabled/.test(text)) {
    return "; the server is no node of a cluster: use redis:// or rediss://";
  }
  if (/unknown (redis )?command/i.test(text)) return "; Redis 6.2 or later is needed";
  return "";
}
