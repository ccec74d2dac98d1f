/**
 * Writes an array as PostgreSQL reads it from text. Clients differ in how they send arrays, but not in
 * how they send text.
 */
export function arrayLiteral(values: readonly (string | number | boolean | null)[]): string {
  return `{${values.map(element).join(",")}}`;
}

function element(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value); // `null`, `true` and `1` need no quotes
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}
