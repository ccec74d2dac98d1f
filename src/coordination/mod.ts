/**
 * Stops many members together without losing messages: a board with the state of each member, a bus between
 * their inboxes, and a stop in ten reported steps.
 *
 * @module
 */

export {
  InvalidTransitionError,
  isInvalidTransitionError,
  type MemberContent,
  type MemberMetadata,
  type MemberRecord,
  type MemberState,
  type MemberStatus,
  type StopNotice,
} from "./member_state.ts";
export {
  type BoardEntry,
  type BoardPage,
  type BoardStore,
  MemoryStore,
  type StoredMember,
} from "./board_store.ts";
export {
  Board,
  type BoardOptions,
  type SetStateOptions,
  type StateChange,
  type WriteErrors,
} from "./board.ts";
export type { BoardListener } from "./_board_watch.ts";
export { DirectoryMailbox, type DirectoryMailboxOptions } from "./directory/directory_mailbox.ts";
export { openDirectoryBoard } from "./directory/directory_board.ts";
export { openRedisBoard, type RedisBoardOptions } from "./redis_board.ts";
export { openPostgresBoard, type PostgresBoardOptions } from "./postgres_board.ts";
export type {
  BusMessage,
  SendOptions,
  SendResult,
  ShutdownNotification,
  ShutdownPayload,
  WhenPaused,
} from "./bus_message.ts";
export type {
  Member,
  MemberBus,
  MemberHandler,
  MemberHealth,
  MemberOptions,
  StopHook,
} from "./member.ts";
export { Bus, type BusOptions } from "./bus.ts";
export {
  type CoordinationSettings,
  type EnvironmentSettings,
  settingsFromEnv,
} from "./settings.ts";
export {
  type CoordinatedShutdownOptions,
  shutdownAllCoordinated,
  shutdownWithCoordination,
} from "./shutdown.ts";
export { CoordinatedLoop, coordinatedLoops } from "./coordinated_loop.ts";
export {
  type DrainCounts,
  SHUTDOWN_STEPS,
  type ShutdownReport,
  type ShutdownStep,
  type ShutdownStepName,
} from "./shutdown_steps.ts";
