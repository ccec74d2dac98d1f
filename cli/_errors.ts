// Errors of the command: one line on standard error, a code for programs, and an exit code.

import { CommanderError } from "commander";
import { isMailboxError, type MailboxConnectionError } from "../mod.ts";
import { errorText } from "../src/errors.ts";

/** The exit codes of all commands; `run` adds those of `LoopGroup.main()`. */
export const EXIT = { done: 0, failed: 1, usage: 2 } as const;

/** The values of `error.code` in the output of `--json`. */
export type FailureCode =
  | "usage"
  | "failed"
  | "not_found"
  | "unavailable"
  | "interrupted"
  | "unexpected";

/** An error that the command prints as one line, without a stack. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly code: FailureCode;
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

/** Makes the error for a wrong argument or option. Throw it before the command changes anything. */
export function usageError(message: string, options?: ErrorOptions): CliError {
  return new CliError("usage", message, options);
}

/** Runs `work` and turns every error of it into a usage error. */
export function asUsage<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof CliError ? error : usageError(messageOf(error), { cause: error });
  }
}

/** Returns the reason of a connection error, also of one that {@linkcode toCliError} has wrapped. */
export function connectionReason(error: unknown): MailboxConnectionError["reason"] {
  const source = error instanceof CliError ? error.cause : error;
  return isMailboxError(source, "MailboxConnectionError")
    ? (source as MailboxConnectionError).reason
    : undefined;
}

/** Turns any thrown value into the error that the command prints. */
export function toCliError(error: unknown): CliError {
  if (error instanceof CliError) return error;
  const options = { cause: error };
  if (error instanceof CommanderError) return usageError(commanderText(error), options);
  if (isMailboxError(error, "InvalidParameterError")) return usageError(error.message, options);
  if (isMailboxError(error, "MailboxConnectionError")) {
    // A missing package is not an outage: starting again later does not help.
    return connectionReason(error) === "client_missing"
      ? usageError(error.message, options)
      : new CliError("unavailable", withReason(error), options);
  }
  if (isMailboxError(error)) return new CliError("failed", error.message, options);
  return new CliError("unexpected", messageOf(error), options);
}

/** Adds what the command did before the error. Then it is no usage error any more. */
export function withProgress(error: unknown, done: string): CliError {
  const { code, exitCode, message } = toCliError(error);
  const text = `${message}; ${done}`;
  return code === "usage"
    ? new CliError("failed", text, { cause: error })
    : new CliError(code, text, { cause: error, exitCode });
}

/** Returns the message of any thrown value in one line. */
export function messageOf(error: unknown): string {
  let text: string;
  try {
    text = error instanceof Error ? `${error.message || error.name}` : errorText(error);
  } catch {
    text = errorText(error);
  }
  return text.replace(/\s*\n\s*/g, " ").trim();
}

/** Appends the message of the cause, unless the engine has put it into its own message. */
function withReason(error: Error): string {
  const reason = error.cause === undefined ? "" : messageOf(error.cause);
  return reason === "" || error.message.includes(reason)
    ? error.message
    : `${error.message}: ${reason}`;
}

function commanderText({ message }: CommanderError): string {
  const text = message.replace(/^error: /, "").replace(/\s*\n\s*/g, " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
