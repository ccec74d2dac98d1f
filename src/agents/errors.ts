/** A request has taken longer than it may. It is the reason of the attempt's aborted `signal`. */
export class DeadlineExceededError extends Error {
  override readonly name = "DeadlineExceededError";

  constructor(deadlineMs: number) {
    super(`The request has taken longer than its deadline of ${deadlineMs} ms`);
  }
}

/** An adapter ended without a word. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
}
