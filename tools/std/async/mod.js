// Replaces jsr:@std/async where JSR cannot be reached, with the same functions from npm. It imports
// single files, because async/mod.js of the npm package does not load.
// @ts-self-types="./mod.d.ts"
export { abortable } from "deno-std/async/abortable.js";
export { deadline } from "deno-std/async/deadline.js";
export { delay } from "deno-std/async/delay.js";
