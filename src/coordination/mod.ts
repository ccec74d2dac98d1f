/**
 * Stops many agents together without losing messages: a board with the state of each agent, a bus between
 * their inboxes, and a stop in ten reported steps.
 *
 * @module
 */

export {
  type AgentMetadata,
  type AgentRecord,
  type AgentState,
  type AgentStatus,
  InvalidTransitionError,
  isInvalidTransitionError,
  type StopNotice,
} from "./agent_state.ts";
export type {
  BoardEntry,
  BoardPage,
  BoardStore,
  StoredAgent,
  StoredContent,
} from "./board_store.ts";
export { Board, type BoardOptions, type SetStateOptions, type StateChange } from "./board.ts";
export type { BoardListener } from "./_board_watch.ts";
export { DirectoryMailbox, type DirectoryMailboxOptions } from "./directory/directory_mailbox.ts";
export { openDirectoryBoard } from "./directory/open_directory_board.ts";
export { openRedisBoard, type RedisBoardOptions } from "./redis/open_redis_board.ts";
export { openPostgresBoard, type PostgresBoardOptions } from "./postgres/open_postgres_board.ts";
export { MemoryStore } from "./memory_store.ts";
export type { Envelope, ShutdownNotification, ShutdownPayload } from "./envelope.ts";
export {
  type Agent,
  type AgentHandler,
  type AgentHome,
  type AgentOptions,
  type HealthWord,
  type StopHook,
} from "./agent.ts";
export type { StateWriter } from "./_state_writer.ts";
export { Bus, type BusOptions } from "./bus.ts";
export type { SendOptions, SendResult, WhenPaused } from "./send_result.ts";
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
} from "./shutdown_report.ts";
