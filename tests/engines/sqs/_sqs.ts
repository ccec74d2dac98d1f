import { after, before } from "node:test";
import process from "node:process";
import { SQSClient } from "@aws-sdk/client-sqs";
import { SqsMailbox, type SqsMailboxOptions } from "../../../src/engines/sqs/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { noServer, SqsServer } from "./_server.ts";

const named = process.env["SQS_ENDPOINT"];

/** Options of a suite: it is skipped where no server is available. */
export const gate: { readonly skip: string | false } = { skip: named ? false : noServer };
if (gate.skip) console.warn(`skipped: ${gate.skip}`);

/** The address of the server, from the first test on. */
export let endpoint: string = named ?? "";

let users = 0;
let shared: SqsServer | undefined;

/** Starts a server for the tests of a file. When files share a process, the last one stops it. */
export function useServer(): void {
  before(async () => {
    if (users++ > 0 || named || gate.skip) return;
    shared = await SqsServer.start();
    endpoint = shared.endpoint;
  });
  after(async () => {
    if (--users === 0) await shared?.[Symbol.asyncDispose]();
  });
}

/** Returns a client. The server accepts any credentials. */
export function clientFor(at: string = endpoint): SQSClient {
  const credentials = { accessKeyId: "test", secretAccessKey: "very-secret" };
  return new SQSClient({ endpoint: at, region: "us-east-1", credentials });
}

/** Returns a name that no other test and no other run has. */
export function uniqueName(ending = ""): string {
  return `test-${crypto.randomUUID()}${ending}`;
}

/** Opens a mailbox with a new name and its own client. */
export async function openForTest(
  options: SqsMailboxOptions & { readonly at?: string; readonly name?: string } = {},
): Promise<
  & { readonly mailbox: SqsMailbox<unknown>; readonly client: SQSClient; readonly name: string }
  & AsyncDisposable
> {
  const { at = endpoint, name = uniqueName(), ...rest } = options;
  const client = clientFor(at);
  const mailbox = await SqsMailbox.open<unknown>(name, {
    ...{ client, create: true, log: silentLog },
    ...rest,
  });
  return {
    mailbox,
    client,
    name,
    async [Symbol.asyncDispose]() {
      await mailbox.close();
      client.destroy();
    },
  };
}
