import { CliError, usageError } from "./_errors.ts";
import type { Io } from "./_io.ts";

/**
 * Asks before something that cannot be undone, and throws unless the answer is yes. Where nobody can
 * be asked it needs `--yes`: a script must have meant it.
 */
export async function confirm(io: Io, question: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!io.typed || !io.err.interactive) {
    throw usageError(`${question} There is no terminal to ask at: add --yes if you mean it.`);
  }
  const answer = await io.ask(`${question} [y/N] `);
  if (/^y(es)?$/i.test(answer?.trim() ?? "")) return;
  throw new CliError("failed", "Nothing was changed.");
}
