// Replaces jsr:@std/assert where JSR cannot be reached, with the same functions from npm.
// @ts-self-types="./mod.d.ts"
export { assertAlmostEquals } from "deno-std/assert/almost_equals.js";
export { assert } from "deno-std/assert/assert.js";
export { AssertionError } from "deno-std/assert/assertion_error.js";
export { assertEquals } from "deno-std/assert/equals.js";
export { assertExists } from "deno-std/assert/exists.js";
export { fail } from "deno-std/assert/fail.js";
export { assertFalse } from "deno-std/assert/false.js";
export { assertGreater } from "deno-std/assert/greater.js";
export { assertGreaterOrEqual } from "deno-std/assert/greater_or_equal.js";
export { assertInstanceOf } from "deno-std/assert/instance_of.js";
export { assertLess } from "deno-std/assert/less.js";
export { assertLessOrEqual } from "deno-std/assert/less_or_equal.js";
export { assertMatch } from "deno-std/assert/match.js";
export { assertNotEquals } from "deno-std/assert/not_equals.js";
export { assertRejects } from "deno-std/assert/rejects.js";
export { assertStrictEquals } from "deno-std/assert/strict_equals.js";
export { assertStringIncludes } from "deno-std/assert/string_includes.js";
export { assertThrows } from "deno-std/assert/throws.js";
export { unreachable } from "deno-std/assert/unreachable.js";
