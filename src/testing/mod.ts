/**
 * For tests of programs that use the package, and for proving one's own implementations of its
 * contracts: a clock that stands still, a process whose signals are sent by hand, and the cases that
 * every {@linkcode Runnable} has to pass.
 *
 * @module
 */

export { VirtualClock } from "./virtual_clock.ts";
export { ExitError, FakeRuntime } from "./fake_runtime.ts";
export { type LifecycleCase, lifecycleCases, type LifecycleFixture } from "./lifecycle_cases.ts";
