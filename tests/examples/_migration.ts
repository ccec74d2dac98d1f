import { assertMatch, assertStringIncludes } from "@std/assert";
import { CreateQueueCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { noServer, SqsServer } from "../engines/sqs/_server.ts";
import { clientFor, uniqueName } from "../engines/sqs/_sqs.ts";
import { everywhere, type Host, start, stopped } from "./_example.ts";

/** Moving over from others. */
export function migration(it: Host): void {
  it(
    "15: jobs of both queues are done, and it is told when the old one is empty",
    everywhere,
    async () => {
      await using mailer = start("15_from_bullmq");
      await mailer.says("the old queue is empty");
      await mailer.says("mail to donald, from the new queue");
      const said = await stopped(mailer);
      for (const to of ["ada", "grace", "edsger"]) {
        assertStringIncludes(said, `mail to ${to}, from the old queue`);
      }
    },
  );

  it("15: a stop ends the old worker too, after its current job", everywhere, async () => {
    await using mailer = start("15_from_bullmq");
    await mailer.says("mail to ada, from the old queue");
    assertMatch(await stopped(mailer), /drained in .*\n {2}old mails: ended/);
  });

  it(
    "16: a handler for sqs-consumer works for a loop, and may leave a message",
    everywhere,
    async () => {
      await using consumer = start("16_from_sqs_consumer");
      await consumer.says("order-2 is deleted");
      assertMatch(
        await stopped(consumer),
        /cake: later[^]*cake: done[^]*order-2 is deleted at delivery 1/,
      );
    },
  );

  it(
    "16: messages that are in a queue of SQS already are handled",
    { skip: noServer },
    async () => {
      await using server = await SqsServer.start();
      const client = clientFor(server.endpoint);
      const name = uniqueName();
      try {
        const { QueueUrl } = await client.send(new CreateQueueCommand({ QueueName: name }));
        await client.send(new SendMessageCommand({ QueueUrl, MessageBody: '{"item":"tea"}' }));
        await using consumer = start("16_from_sqs_consumer", {
          env: {
            MAILBOX_URL: `sqs:${name}?region=us-east-1&create=true&endpoint=${server.endpoint}`,
            AWS_ACCESS_KEY_ID: "test",
            AWS_SECRET_ACCESS_KEY: "very-secret",
          },
        });
        await consumer.says("is deleted at delivery 1");
        await stopped(consumer);
      } finally {
        client.destroy();
      }
    },
  );

  it("17: a task list handles old jobs, new jobs and a crontab", everywhere, async () => {
    await using worker = start("17_from_graphile_worker");
    await worker.says("the plants are watered");
    await worker.says("the old tables are empty");
    const said = await stopped(worker);
    for (const who of ["old-ada: mail to ada", "old-grace: mail to grace", "new-1: mail to barb"]) {
      assertStringIncludes(said, who);
    }
  });
}
