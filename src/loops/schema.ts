import type { Message } from "../mailbox/mailbox.ts";

/** A validator that implements the Standard Schema specification. */
export interface StandardSchema<Output = unknown> {
  /** The members that the specification requires. */
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
  };
}

/** The result of a validation: a value, or issues. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One violation of the schema. */
export interface SchemaIssue {
  /** A description for people. */
  readonly message: string;
  /** The path in the body; missing for the body as a whole. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Describes the issues in one line, each with its path. */
export function describeIssues(issues: readonly SchemaIssue[]): string {
  return issues.map(({ message, path = [] }) => {
    const place = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
    return place === "" ? message : `${place}: ${message}`;
  }).join("; ");
}

/** Returns the message with another body. Everything else is that of the message. */
export function withBody<T, R>(message: Message<unknown, R>, body: T): Message<T, R> {
  return new Proxy(message, {
    get(target, name) {
      if (name === "body") return body;
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  }) as Message<T, R>;
}
