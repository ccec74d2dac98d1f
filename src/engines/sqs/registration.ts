import { definedOptions, type EngineRegistration } from "../_kit/registration.ts";
import { countParam, flagParam } from "../_kit/mailbox_url.ts";

/** A queue of Amazon SQS. */
export const sqs: EngineRegistration = {
  name: "SQS",
  schemes: ["sqs"],
  parameters: [
    ...["region", "endpoint", "create", "deadLetterQueue", "messageGroupId", "keys"],
    "maxBodyBytes",
  ],
  help: [
    "sqs:https://sqs.eu-west-1.amazonaws.com/123/orders",
    "sqs:orders?region=eu-west-1&create=true",
  ],
  packages: ["@aws-sdk/client-sqs"],
  starter: {
    url: (queue) => `sqs:${queue}?region=eu-west-1&create=true`,
    range: "^3.1164.0",
  },
  async open(url, options) {
    const { SqsMailbox } = await import("./mod.ts");
    return await SqsMailbox.open(
      url.path,
      definedOptions({
        ...options,
        region: url.params.get("region"),
        endpoint: url.params.get("endpoint"),
        create: flagParam(url, "create"),
        deadLetterQueue: url.params.get("deadLetterQueue"),
        messageGroupId: url.params.get("messageGroupId"),
        keys: flagParam(url, "keys"),
        maxBodyBytes: countParam(url, "maxBodyBytes"),
      }),
    );
  },
};
