// The calls of a history on the mailboxes of a queue.

import { redrive } from "../../src/loops/redrive.ts";
import { isMailboxError } from "../../src/mailbox/errors.ts";
import type { Message, PeekedMessage, SendOptions } from "../../src/mailbox/mailbox.ts";
import type { Result } from "../mailbox/_model.ts";
import type { Answer, Call, Seen, Sent } from "./_calls.ts";
import { LONG_MS } from "./_rules.ts";
import { lookAt, type OpenQueue, type Site } from "./_site.ts";
import { Violation } from "./_worlds.ts";

/** Makes calls, and keeps what they returned: deliveries and ids. */
export class Caller {
  /** All deliveries, the first one first. */
  readonly deliveries: { readonly client: number; readonly message: Message<number> }[] = [];
  /** The known ids, the newest first. */
  readonly ids: string[] = [];
  /** The position of the delivery of the last call that was lost. */
  lost: number | undefined;
  readonly #site: Site;
  readonly #queue: OpenQueue;

  constructor(site: Site, queue: OpenQueue) {
    this.#site = site;
    this.#queue = queue;
  }

  /** Makes a call in one process. Rejects when its answer is lost. */
  async perform(client: number, call: Call): Promise<Answer> {
    const { mailbox } = this.#queue.clients[client]!;
    switch (call.do) {
      case "send":
      case "sendMany": {
        const { messages } = call;
        const optionsOf = ({ id, options }: Sent) => {
          return { ...options, ...(id && { id }) } as SendOptions;
        };
        const sent = call.do === "send"
          ? [await mailbox.send(messages[0]!.serial, optionsOf(messages[0]!))]
          : await mailbox.sendMany(messages.map(({ serial }) => serial), (_, i) => {
            return optionsOf(messages[i]!);
          });
        const ids = sent.map(({ id }) => id);
        this.ids.unshift(...ids);
        return { stored: sent.map(({ stored }) => stored), ids };
      }
      case "receive": {
        const options = { maxMessages: call.max, visibilityTimeoutMs: LONG_MS };
        const received = await mailbox.receive(options);
        for (const message of received) {
          const handles = this.deliveries.map((it) => it.message.receiptHandle);
          if (handles.includes(message.receiptHandle)) {
            throw new Violation(`The receipt handle of message ${message.body} is not new`);
          }
          this.deliveries.push({ client, message });
          this.#know(message.id);
        }
        return { received: received.map(seen) };
      }
      case "acknowledgeMany":
      case "releaseMany": {
        const messages = call.deliveries.map((it) => this.deliveries[it]!.message);
        return { results: await mailbox[call.do](messages) };
      }
      case "redrive":
        return { value: await redrive(mailbox, { maxMessages: call.max }) };
      case "redriveById":
        return { value: await redrive(mailbox, { ids: [call.id] }) };
      case "get": {
        const found = await mailbox.get(call.id);
        return { found: found && seen(found) };
      }
      case "deleteLetter":
        return { value: await mailbox.deadLetters.cancel(call.id) };
      case "cancel":
      case "deliverNow":
        return { value: await mailbox[call.do](call.id) };
      case "pause":
      case "resume":
        return { value: await mailbox[call.do]() ?? undefined };
      case "purge":
        return { value: await mailbox.purge() };
      case "look": {
        const look = await (this.#site.look ?? lookAt)(mailbox);
        for (const { id } of look.messages ?? []) this.#know(id);
        return look;
      }
      default: {
        const { message } = this.deliveries[call.delivery]!;
        const { ms } = call;
        const acts = {
          acknowledge: () => message.acknowledge(),
          nack: () => message.nack({ delayMs: ms }),
          nackFree: () => message.nack({ delayMs: ms, countsAttempt: false }),
          release: () => message.release(),
          deadLetter: () => message.deadLetter({ reason: "test" }),
          extend: () => message.extendVisibility(ms),
          save: () => message.saveCheckpoint(ms),
        };
        return { result: await resultOf(acts[call.do]()) };
      }
    }
  }

  #know(id: string): void {
    if (!this.ids.includes(id)) this.ids.unshift(id);
  }
}

function seen(
  message: PeekedMessage<number> & { readonly checkpoint?: unknown },
): Seen {
  const { body, id, deliveryCount, checkpoint, state } = message;
  return { serial: body, id, deliveryCount, checkpoint, state };
}

async function resultOf(act: Promise<void>): Promise<Result> {
  try {
    await act;
    return "done";
  } catch (error) {
    const names = ["ReceiptHandleExpiredError", "MessageFinalizedError"] as const;
    const name = names.find((it) => isMailboxError(error, it));
    if (name === undefined) throw error;
    return name;
  }
}
