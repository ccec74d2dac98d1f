import { errorText } from "../errors.ts";
import type { Context, Hono } from "hono";
import type { bearerAuth } from "hono/bearer-auth";
import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { redrive } from "../loops/redrive.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { checkToken, type Inspectable } from "./health_options.ts";
import { readDeadLetters } from "./_dead_letters.ts";
import type { StatusSource } from "./_status_source.ts";

/** What the controls work with. */
export interface ControlsOptions {
  readonly token: string;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** As many letters go back by one request, so that it has an end. */
const MOST_REDRIVEN = 1_000;

/** Adds the paths that need the token. */
export function addControls(
  app: Hono,
  makeAuth: typeof bearerAuth,
  group: Inspectable,
  source: StatusSource,
  options: ControlsOptions,
): void {
  const { clock, log, timeoutMs } = options;
  const auth = makeAuth({ token: checkToken(options.token) });

  app.get("/controls", auth, (context) => context.json({ status: "allowed" }));

  app.post("/pause", auth, (context) => {
    group.pause().catch((error) => log.error("the group could not be paused", { error }));
    return context.json({ status: "draining" }, 202);
  });

  app.post("/resume", auth, (context) => {
    group.resume();
    return context.json({ status: "resumed" });
  });

  app.get("/dead-letters", auth, async (context) => {
    const mailbox = mailboxOf(context, source);
    if (mailbox instanceof Response) return mailbox;
    let letters: Awaited<ReturnType<typeof readDeadLetters>>;
    const looking = readDeadLetters(mailbox).then((found) => void (letters = found));
    await settlesWithin(looking, timeoutMs, clock);
    if (letters !== undefined) return context.json({ mailbox: mailbox.name, letters });
    return context.json({ error: `"${mailbox.name}" does not show its dead letters now` }, 503);
  });

  app.post("/redrive", auth, async (context) => {
    const mailbox = mailboxOf(context, source);
    if (mailbox instanceof Response) return mailbox;
    try {
      // No more than there are now: what fails again at once must not go round for ever.
      const { deadLetters } = mailbox;
      const maxMessages = Math.min(await deadLetters.approximateCount(), MOST_REDRIVEN);
      const redriven = maxMessages > 0 ? await redrive(mailbox, { maxMessages, clock }) : 0;
      return context.json({ mailbox: mailbox.name, redriven });
    } catch (error) {
      log.error(`the dead letters of "${mailbox.name}" could not be redriven`, { error });
      return context.json({ error: errorText(error) }, 503);
    }
  });
}

type Redrivable = Mailbox<unknown> & Required<Pick<Mailbox<unknown>, "deadLetters">>;

/** The mailbox that a request names, or the answer that it cannot be that one. */
function mailboxOf(context: Context, source: StatusSource): Redrivable | Response {
  const name = context.req.query("mailbox");
  if (name === undefined) return context.json({ error: "say which: ?mailbox=…" }, 400);
  const mailbox = source.mailbox(name) as Partial<Redrivable> | undefined;
  if (mailbox === undefined) {
    return context.json({ error: `there is no mailbox "${name}" here` }, 404);
  }
  if (mailbox.deadLetters !== undefined && mailbox.send !== undefined) return mailbox as Redrivable;
  return context.json({ error: `mailbox "${name}" keeps no dead letters` }, 404);
}
