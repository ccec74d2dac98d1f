/** A request has taken longer than it may. It is the reason of the attempt's aborted `signal`. */
export class DeadlineExceededError extends Error {
  /** What a log or a `catch` tells it by. */
  override readonly name = "DeadlineExceededError";

  /** With the deadline that has passed, for the message. */
  constructor(deadlineMs: number) {
    super(`The request has taken longer than its deadline of ${deadlineMs} ms`);
  }
}

/** An adapter ended without a word. */
export class NoAnswerError extends Error {
  /** What a log or a `catch` tells it by. */
  override readonly name = "NoAnswerError";
}
