import { type Command, Option } from "commander";
import { usageError } from "../_errors.ts";
import { type Io, watch } from "../_io.ts";
import { fullScreen } from "../_live.ts";
import { MAILBOXES } from "../_mailbox.ts";
import { examples, parseInterval } from "../_options.ts";
import { ageText, paint, printer } from "../_print.ts";
import { frame, plainLines, sorted, SORTS } from "../top/frame.ts";
import { awayError, Looker, sourceOf, type View } from "../top/sources.ts";

interface Flags {
  readonly interval: number;
  readonly once?: boolean;
  readonly sort: string;
}

/** How long the view waits for a source, at least. */
const ANSWER_MS = 1_000;
/** The same with `--once`, where no second look follows. */
const ONLY_ANSWER_MS = 10_000;

const KEYS = `
Keys: q or Ctrl+C quits, s changes the order of queues, p holds the view.

A mailbox without ?queue= shows all queues of its file, database or server. CHANGE/S is how fast the
number of messages grows or shrinks.`;

/** Adds `lastcall top`, which shows queues and workers and refreshes the view. */
export function addTop(program: Command, io: Io): void {
  program.command("top")
    .description("Show queues and workers in the terminal, and refresh the view until q or Ctrl+C.")
    .argument("[urls...]", "mailboxes, and health apps as http://host:8080, host:8080 or :8080")
    .addOption(
      new Option("--interval <time>", "time between two looks")
        .argParser(parseInterval).default(1_000, "1s"),
    )
    .addOption(
      new Option("--sort <order>", "order of queues").choices(Object.keys(SORTS)).default(
        "backlog",
      ),
    )
    .option("--once", "look once; exit code 1 if a mailbox or a worker does not answer")
    .addHelpText("after", KEYS)
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall top sqlite:./jobs.db", "all queues of a file"],
        ["lastcall top sqlite:./jobs.db :8080 :8081", "and two workers"],
        ["lastcall top sqlite:./jobs.db --once", "once"],
        ["lastcall top sqlite:./jobs.db --json --interval 10s", "a JSON value every ten seconds"],
      ),
    )
    .action(async (given: readonly string[], flags: Flags, command: Command) => {
      const fallback = io.env["LASTCALL_MAILBOX"];
      const urls = given.length === 0 && fallback ? [fallback] : given;
      if (urls.length === 0) {
        throw usageError(
          "Nothing to show: give URLs of mailboxes or health apps, or set LASTCALL_MAILBOX",
        );
      }
      const looker = new Looker([...new Set(urls)].map(sourceOf));
      const { json } = printer(io, command);
      try {
        if (flags.once) await showOnce(io, looker, flags.sort, json);
        else if (json || !io.out.interactive) await writeLines(io, looker, flags, json);
        else await showScreen(io, looker, flags);
      } finally {
        await looker.close();
      }
    });
}

function jsonLine({ workers, queues, away }: View): string {
  const errors = away.map(({ at, message, code }) => ({ at, message, code }));
  return `${JSON.stringify({ at: new Date().toISOString(), workers, queues, errors })}\n`;
}

function inOrder(looker: Looker, sort: string): View {
  const view = looker.view();
  return { ...view, queues: sorted(view.queues, sort) };
}

async function showOnce(io: Io, looker: Looker, sort: string, json: boolean): Promise<void> {
  await looker.look(ONLY_ANSWER_MS, new AbortController().signal);
  const view = inOrder(looker, sort);
  const { away, ...answers } = view;
  const lines = frame({ ...answers, away: [] }, Infinity, io.out, paint(io, io.out));
  if (json) io.out.write(jsonLine(view));
  else if (lines.length > 0) io.out.write(`${lines.slice(1).join("\n")}\n`);
  else if (away.length === 0) io.out.write("no queues\n");
  if (away.length > 0) throw awayError(view);
}

async function writeLines(
  io: Io,
  looker: Looker,
  { interval, sort }: Flags,
  json: boolean,
): Promise<void> {
  await watch(io, interval, async (signal) => {
    await looker.look(Math.max(interval, ANSWER_MS), signal);
    if (signal.aborted) return;
    const view = inOrder(looker, sort);
    if (json) return io.out.write(jsonLine(view));
    const at = new Date().toISOString();
    for (const line of plainLines(view)) io.out.write(`${at} ${line}\n`);
  });
}

async function showScreen(io: Io, looker: Looker, { interval, sort }: Flags): Promise<void> {
  const style = paint(io, io.out);
  const screen = fullScreen(io.out);
  const quit = new AbortController();
  let order = sort;
  let held: View | undefined;
  const draw = () => {
    const view = held ?? looker.view();
    const state = held === undefined ? `every ${ageText(interval)}` : "held";
    const time = new Date().toTimeString().slice(0, 8);
    const head = `lastcall top  ${time}, ${state}  q quit  s sort: ${order}  p hold`;
    const rows = frame(
      { ...view, queues: sorted(view.queues, order) },
      (io.out.rows ?? 24) - 1,
      io.out,
      style,
    );
    screen.show([style("dim", head), ...rows]);
  };
  const release = io.keys?.((key) => {
    if (key === "q" || key === "\x03") return quit.abort();
    if (key === "s") {
      const orders = Object.keys(SORTS);
      order = orders[(orders.indexOf(order) + 1) % orders.length]!;
    } else if (key === "p") held = held === undefined ? looker.view() : undefined;
    else return;
    draw();
  });
  try {
    await watch(io, interval, async (signal) => {
      await looker.look(Math.max(interval, ANSWER_MS), signal);
      if (!signal.aborted) draw();
    }, quit.signal);
  } finally {
    release?.();
    screen.leave();
  }
}
