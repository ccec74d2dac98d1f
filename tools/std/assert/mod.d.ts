// deno-lint-ignore-file no-explicit-any -- constructors of any arguments, as in the original

type ErrorClass<E extends Error> = abstract new (...args: any[]) => E;
type AnyConstructor = abstract new (...args: any[]) => any;
type InstanceOf<C extends AnyConstructor> = C extends abstract new (...args: any[]) => infer T ? T
  : never;

/** Thrown by failed assertions. */
export declare class AssertionError extends Error {
  constructor(message: string, options?: ErrorOptions);
}

/** Throws unless `expr` is truthy. */
export declare function assert(expr: unknown, msg?: string): asserts expr;
/** Throws unless `expr` is falsy. */
export declare function assertFalse(expr: unknown, msg?: string): asserts expr is Falsy;
type Falsy = false | 0 | 0n | "" | null | undefined;

/** Throws unless both are deeply equal. */
export declare function assertEquals<T>(actual: T, expected: T, msg?: string): void;
/** Throws when both are deeply equal. */
export declare function assertNotEquals<T>(actual: T, expected: T, msg?: string): void;
/** Throws unless both are the same by `Object.is`. */
export declare function assertStrictEquals<T>(
  actual: unknown,
  expected: T,
  msg?: string,
): asserts actual is T;
/** Throws unless both are within `tolerance`, by default 1e-7 of `expected`. */
export declare function assertAlmostEquals(
  actual: number,
  expected: number,
  tolerance?: number,
  msg?: string,
): void;

/** Throws unless `actual > expected`. */
export declare function assertGreater<T>(actual: T, expected: T, msg?: string): void;
/** Throws unless `actual >= expected`. */
export declare function assertGreaterOrEqual<T>(actual: T, expected: T, msg?: string): void;
/** Throws unless `actual < expected`. */
export declare function assertLess<T>(actual: T, expected: T, msg?: string): void;
/** Throws unless `actual <= expected`. */
export declare function assertLessOrEqual<T>(actual: T, expected: T, msg?: string): void;

/** Throws on `null` and `undefined`. */
export declare function assertExists<T>(
  actual: T,
  msg?: string,
): asserts actual is NonNullable<T>;
/** Throws unless `actual instanceof expectedType`. */
export declare function assertInstanceOf<C extends AnyConstructor>(
  actual: unknown,
  expectedType: C,
  msg?: string,
): asserts actual is InstanceOf<C>;
/** Throws unless the pattern matches. */
export declare function assertMatch(actual: string, expected: RegExp, msg?: string): void;
/** Throws unless `actual` contains `expected`. */
export declare function assertStringIncludes(actual: string, expected: string, msg?: string): void;

/** Throws unless `fn` throws; returns what it threw. */
export declare function assertThrows(fn: () => unknown, msg?: string): unknown;
/** Throws unless `fn` throws an `ErrorClass` whose message includes `msgIncludes`. */
export declare function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  ErrorClass: ErrorClass<E>,
  msgIncludes?: string,
  msg?: string,
): E;

/** Rejects unless the promise of `fn` rejects; resolves with the reason. */
export declare function assertRejects(
  fn: () => PromiseLike<unknown>,
  msg?: string,
): Promise<unknown>;
/** Rejects unless the promise of `fn` rejects with an `ErrorClass`; resolves with that error. */
export declare function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  ErrorClass: ErrorClass<E>,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;

/** Fails the test. */
export declare function fail(msg?: string): never;
/** Fails the test because this line was reached. */
export declare function unreachable(msg?: string): never;
