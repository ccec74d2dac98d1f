import type { Codec } from "./codec.ts";
import type { Delivery, Engine } from "./engine.ts";

/** The result of a step that a delivery of the message has finished. */
export interface StepRecord {
  /** The name of the step. */
  readonly name: string;
  /** The number of the step among all steps of the handler, from 1, in the order of their calls. */
  readonly place: number;
  /** The JSON value that the step returned; undefined when it returned nothing. */
  readonly result?: unknown;
}

/** The checkpoint of the handler, and the steps that it has finished. Both are stored as one value. */
export interface Progress {
  readonly checkpoint?: unknown;
  readonly steps: readonly StepRecord[];
}

/** The member of a stored checkpoint that has the finished steps. */
const STEPS = "lastcall:steps";

/** Separates a stored checkpoint. Without steps the whole value is the checkpoint of the handler. */
export function readProgress(stored: unknown): Progress {
  if (!hasSteps(stored)) return { checkpoint: stored, steps: [] };
  return { checkpoint: stored.checkpoint, steps: stored[STEPS] };
}

/** What a checkpoint with steps is stored as. */
interface StoredProgress {
  readonly [STEPS]: readonly StepRecord[];
  readonly checkpoint?: unknown;
}

function hasSteps(stored: unknown): stored is StoredProgress {
  const steps = Object(stored)[STEPS];
  return Array.isArray(steps) && steps.every((step) => {
    const { name, place } = Object(step);
    return typeof name === "string" && Number.isInteger(place) && place > 0;
  });
}

/** Joins what `readProgress` separates. */
export function joinProgress({ checkpoint, steps }: Progress): unknown {
  // A checkpoint that looks like one with steps must not be read as such.
  if (steps.length === 0 && !hasSteps(checkpoint)) return checkpoint;
  return { [STEPS]: steps, ...(checkpoint === undefined ? {} : { checkpoint }) };
}

/** What the progress of a message is stored with. */
interface Parts<B> {
  readonly engine: Engine<B>;
  readonly codec: Codec<B>;
}

/** The progress of one delivery: what earlier deliveries saved, and what this one saves. */
export class SavedProgress<B> {
  readonly #delivery: Delivery<B>;
  readonly #parts: Parts<B>;
  /** The checkpoint that this delivery saved; `delivery` has the one before. */
  #stored: B | undefined;
  /** The decoded checkpoint, where the codec needs a promise to decode it. */
  #decoded: { readonly checkpoint: unknown } | undefined;
  /** The last save: a save begins when the one before has ended, so that it changes what that one stored. */
  #saving: Promise<unknown> = Promise.resolve();

  constructor(
    delivery: Delivery<B>,
    parts: Parts<B>,
    decoded: { readonly checkpoint: unknown } | undefined,
  ) {
    this.#delivery = delivery;
    this.#parts = parts;
    this.#decoded = decoded;
  }

  /** Reads what was saved last. Throws when it cannot be decoded. */
  read(): Progress {
    if (this.#decoded !== undefined) return readProgress(this.#decoded.checkpoint);
    const stored = this.#stored ?? this.#delivery.checkpoint;
    return readProgress(stored === undefined ? undefined : this.#parts.codec.decode(stored));
  }

  /** Returns what was saved last as one value; as text when it cannot be decoded. */
  whole(): unknown {
    try {
      return joinProgress(this.read());
    } catch {
      const stored = this.#stored ?? this.#delivery.checkpoint;
      return stored === undefined ? undefined : this.#parts.codec.text(stored);
    }
  }

  /** Saves a change. Returns false when the receipt handle has expired. */
  save(change: (progress: Progress) => Progress, checkOpen: () => void): Promise<boolean> {
    const saved = this.#saving.then(() => this.#save(change, checkOpen));
    this.#saving = saved.catch(() => {}); // the caller of that save gets its error
    return saved;
  }

  async #save(change: (progress: Progress) => Progress, checkOpen: () => void): Promise<boolean> {
    const { codec, engine } = this.#parts;
    const encoding = codec.encode(joinProgress(change(this.#readable())));
    const encoded = encoding instanceof Promise ? await encoding : encoding;
    codec.checkSize?.(encoded);
    checkOpen();
    if (!await engine.checkpoint(this.#delivery, encoded)) return false;
    this.#stored = encoded;
    const isAsync = encoding instanceof Promise || this.#decoded !== undefined;
    if (isAsync) this.#decoded = { checkpoint: await codec.decode(encoded) };
    return true;
  }

  /** A checkpoint that cannot be decoded must not prevent a new one. */
  #readable(): Progress {
    try {
      return this.read();
    } catch {
      return { steps: [] };
    }
  }
}
