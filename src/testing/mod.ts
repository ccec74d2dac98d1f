/**
 * Tools for tests of programs that use the package: a virtual clock, a fake runtime, and mailboxes that
 * record, drop or fail. For implementations of its interfaces: the test cases that every
 * {@linkcode Runnable} and every {@linkcode Mailbox} has to pass.
 *
 * @module
 */

export { VirtualClock } from "./virtual_clock.ts";
export { ExitError, FakeRuntime } from "./fake_runtime.ts";
export { type LifecycleCase, lifecycleCases, type LifecycleFixture } from "./lifecycle_cases.ts";
export { type Collected, CollectingMailbox, NullMailbox } from "./simple_mailboxes.ts";
export { type EngineOperation, FaultyEngine, type LostConnection } from "./faulty_engine.ts";
export { FaultyMailbox } from "./faulty_mailbox.ts";
export {
  type MailboxCase,
  mailboxCases,
  type MailboxFixture,
  type MailboxPart,
  type MailboxTopic,
  type MakeMailbox,
  type SkippedMailboxCase,
  skippedMailboxCases,
} from "./mailbox_cases/mod.ts";
