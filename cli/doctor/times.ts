// Times as the doctor says them: exactly, since people compare them.

/** `500 ms`, `4.5 s`, `90 s`, `5 min`, `12 h`. */
export function spell(ms: number): string {
  if (ms > 0 && ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms >= 7_200_000 && ms % 3_600_000 === 0) return `${ms / 3_600_000} h`;
  if (ms >= 120_000 && ms % 60_000 === 0) return `${ms / 60_000} min`;
  return `${Number((ms / 1_000).toFixed(1))} s`;
}

/** The same as a flag takes it: `500ms`, `4.5s`, `5m`. */
export function asFlag(ms: number): string {
  return spell(ms).replace(" min", "m").replace(" ", "");
}

/** Up to a value that people would choose: whole seconds. */
export function wholeSeconds(ms: number): number {
  return Math.ceil(ms / 1_000) * 1_000;
}
