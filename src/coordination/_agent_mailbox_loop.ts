import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { MailboxLoop } from "../loops/mailbox_loop.ts";
import type { StandardSchema } from "../loops/schema.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { type AgentOptions, archive, handlerFor } from "./agent.ts";
import { type Envelope, envelopeFault } from "./envelope.ts";

const envelopes: StandardSchema<Envelope> = {
  "~standard": {
    version: 1,
    vendor: "lastcall",
    validate(value) {
      const fault = envelopeFault(value);
      return fault === undefined ? { value: value as Envelope } : { issues: [{ message: fault }] };
    },
  },
};

/** The loop of an agent that has none of its own: it works on the inbox with the agent's handlers. */
export function agentMailboxLoop(
  options: AgentOptions,
  inbox: Mailbox<Envelope>,
  clock: Clock,
  log: Log,
): MailboxLoop<Envelope> {
  return new MailboxLoop<Envelope>({
    name: options.id,
    mailbox: inbox,
    schema: envelopes,
    deadLetter: {},
    clock,
    log,
    async handler(message, { signal }) {
      const handler = handlerFor(options, message.body.type);
      if (handler === undefined) await archive(options, message);
      else await handler(message.body, { signal });
    },
  });
}
