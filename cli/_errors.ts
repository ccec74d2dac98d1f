// What went wrong, as the person at the command line reads it: one line, and an exit code.

import { CommanderError } from "commander";
import { isMailboxError } from "../mod.ts";
import { errorText } from "../src/errors.ts";

/** The exit codes of the command's own; `run` adds those of `LoopGroup.main()`. */
export const EXIT = { done: 0, failed: 1, usage: 2 } as const;

/** What programs can tell failures apart by, with `--json`. */
export type FailureCode =
  | "usage"
  | "failed"
  | "not_found"
  | "unavailable"
  | "interrupted"
  | "unexpected";

/** A failure that is told in one line, without a stack. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly code: FailureCode;
  /** What the process ends with. */
  readonly exitCode: number;

  constructor(
    code: FailureCode,
    message: string,
    options: ErrorOptions & { readonly exitCode?: number } = {},
  ) {
    super(message, options);
    this.code = code;
    this.exitCode = options.exitCode ?? (code === "usage" ? EXIT.usage : EXIT.failed);
  }
}

/** The command was called in a way that makes no sense; nothing has happened. */
export function usageError(message: string, options?: ErrorOptions): CliError {
  return new CliError("usage", message, options);
}

/** How engines say that a package or a runtime is not there: no server can mend that. */
const MISSING = /cannot be loaded|No SQLite driver|on Deno KV needs/;

/** Whether an engine cannot be had here, whatever its server does; explained already or not. */
export function isMissing(error: unknown): boolean {
  const { cause } = error instanceof CliError ? error : { cause: error };
  return isMailboxError(cause, "MailboxConnectionError") && MISSING.test(cause.message);
}

/** Whatever was thrown, as something to tell. */
export function explain(error: unknown): CliError {
  if (error instanceof CliError) return error;
  if (error instanceof CommanderError) return usageError(fromCommander(error), { cause: error });
  if (isMailboxError(error, "InvalidParameterError")) {
    return usageError(error.message, { cause: error });
  }
  if (isMailboxError(error, "MailboxConnectionError")) {
    if (isMissing(error)) return usageError(error.message, { cause: error });
    return new CliError("unavailable", withReason(error), { cause: error });
  }
  if (isMailboxError(error)) return new CliError("failed", error.message, { cause: error });
  return new CliError("unexpected", textOf(error), { cause: error });
}

/** A failure in the middle of something, with what was done before it: so it is more than wrong usage. */
export function interruptedBy(error: unknown, done: string): CliError {
  const { code, exitCode, message } = explain(error);
  const told = `${message}; ${done}`;
  return code === "usage"
    ? new CliError("failed", told, { cause: error })
    : new CliError(code, told, { cause: error, exitCode });
}

/** The words of an error, in one line. */
export function textOf(error: unknown): string {
  return messageOf(error).replace(/\s*\n\s*/g, " ").trim();
}

function messageOf(error: unknown): string {
  try {
    return error instanceof Error ? `${error.message || error.name}` : errorText(error);
  } catch {
    return errorText(error);
  }
}

/** The reason of a lost connection is in its cause, unless it was told already. */
function withReason(error: Error): string {
  const reason = error.cause === undefined ? "" : textOf(error.cause);
  return reason === "" || error.message.includes(reason)
    ? error.message
    : `${error.message}: ${reason}`;
}

function fromCommander({ message }: CommanderError): string {
  const text = message.replace(/^error: /, "").replace(/\s*\n\s*/g, " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
