import { missingPackages } from "../../errors.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Target } from "./_target.ts";
import type { SqsSdk } from "./sqs_client.ts";

/** Not a literal: an optional peer need not be there when imports are checked. */
const MODULE: string = "@aws-sdk/client-sqs";

/** Loads the SDK: its commands are needed also by whoever brings a client. */
export async function loadSdk(): Promise<SqsSdk> {
  try {
    return await import(MODULE) as SqsSdk;
  } catch (error) {
    throw new MailboxConnectionError(
      `${missingPackages("A mailbox on SQS", [MODULE])}, or hand the module in as \`sdk\``,
      { cause: error, reason: "client_missing" },
    );
  }
}

/** A client for a target; what is not said is found in the environment, as the SDK does it. */
export function makeClient(
  { SQSClient }: SqsSdk,
  { region, endpoint }: Target,
): InstanceType<SqsSdk["SQSClient"]> {
  return new SQSClient({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
  });
}
