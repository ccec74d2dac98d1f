// What `--help` says beyond the options.

/** The Examples section of a command: lines to copy, with what they do. */
export function examples(...lines: readonly (readonly [command: string, what: string])[]): string {
  const width = Math.max(...lines.map(([command]) => command.length));
  const shown = lines.map(([command, what]) => `  $ ${command.padEnd(width)}  # ${what}`);
  return `\nExamples:\n${shown.join("\n")}`;
}

/** How a mailbox is named, for every command that takes one. */
export const MAILBOXES = `
Mailboxes:
  sqlite:./jobs.db?queue=orders            a file
  redis://localhost:6379?queue=orders      Redis; redis+cluster:// for a cluster
  postgres://localhost/app?queue=orders    PostgreSQL
  nats://localhost:4222?queue=orders       NATS with JetStream
  sqs:orders?region=eu-west-1              Amazon SQS
  denokv:./jobs.kv?queue=orders            Deno KV, on Deno

  The mailbox can be left out when LASTCALL_MAILBOX names it.`;

/** The table of exit codes. */
export const EXIT_CODES = `
Exit codes:
  0      done; of run: drained, everything in flight was finished
  1      failed: the engine is away, a loop failed, it is not there or not ready
  2      wrong usage; nothing has happened
  124    of run: the deadline passed with work left
  128+n  ended by signal n; of run: forced by it`;
