// Verifies Tessera proofs. See index.d.ts for what is what.
import * as wasm from "./tessera_wasm.js";

/** A key or proof that cannot be used, or a proof that a key cannot decide about. */
export class TesseraError extends Error {
  name = "TesseraError";
}

// What is given has to be what the types say: nothing is rounded, cut to a byte, or left out. Errors name the argument.
function wrong(field, what) {
  return new TypeError(`${field} ${what}`);
}

// Of arrays of other realms, too: by what they are, not by who made them.
const kind = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
const byteLength = Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get;

function isBuffer(value) {
  try {
    byteLength.call(value);
    return true;
  } catch {
    return false;
  }
}

// A copy: whoever gave the bytes may change them afterwards.
function bytesOf(field, value) {
  if (kind.call(value) !== "Uint8Array" && !isBuffer(value)) {
    throw wrong(field, "has to be a Uint8Array or an ArrayBuffer");
  }
  try {
    return isBuffer(value) ? new Uint8Array(value).slice() : new Uint8Array(value);
  } catch {
    throw wrong(field, "has no bytes any more: its buffer is detached");
  }
}

function textOf(field, value) {
  if (typeof value !== "string") throw wrong(field, "has to be a string");
  if (/\p{Surrogate}/u.test(value)) throw wrong(field, "has half of a character: it is no Unicode text");
  return value;
}

function idsOf(field, value) {
  const iterable = typeof value === "object" && value !== null && typeof value[Symbol.iterator] === "function";
  if (!iterable) throw wrong(field, "has to be an array of token ids");
  const ids = [];
  for (const id of value) {
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id > 0xffffffff) {
      throw wrong(`${field}[${ids.length}]`, "is no token id: a number, an integer from 0 to 4294967295");
    }
    ids.push(id);
  }
  return Uint32Array.from(ids);
}

function flagOf(field, value) {
  if (typeof value !== "boolean") throw wrong(field, "has to be true or false");
  return value;
}

function numberOf(field, value) {
  if (typeof value !== "number" || !Number.isFinite(value)) throw wrong(field, "has to be a number");
  return value;
}

function pairOf(field, value) {
  if (!Array.isArray(value) || value.length !== 2) throw wrong(field, "has to be an array of two strings");
  return value.map((text, i) => textOf(`${field}[${i}]`, text));
}

// What JSON would leave out or change in silence is refused: the ids would be others.
function jsonOf(field, value, depth = 0) {
  if (depth > 100) throw wrong(field, "is nested too deep");
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "string") return textOf(field, value);
  if (typeof value === "number") return numberOf(field, value);
  if (Array.isArray(value)) return Array.from(value, (item, i) => jsonOf(`${field}[${i}]`, item, depth + 1));
  if (typeof value === "object" && [null, Object.prototype].includes(Object.getPrototypeOf(value))) {
    const own = Object.entries(value).filter(([, item]) => item !== undefined);
    return Object.fromEntries(own.map(([name, item]) => [textOf(field, name), jsonOf(`${field}.${name}`, item, depth + 1)]));
  }
  throw wrong(field, "has to be a value of JSON");
}

function listOf(field, value) {
  const iterable = typeof value === "object" && value !== null && typeof value[Symbol.iterator] === "function" && kind.call(value) === undefined;
  if (!iterable) throw wrong(field, "has to be an array of reveals");
  return Array.from(value, (own, i) => bytesOf(`${field}[${i}]`, own));
}

// One behind the other, as the verifier takes them.
function joined(all) {
  const bytes = new Uint8Array(all.reduce((sum, own) => sum + own.length, 0));
  all.reduce((at, own) => (bytes.set(own, at), at + own.length), 0);
  return bytes;
}

const KINDS = { flag: flagOf, text: textOf, ids: (field, value) => Array.from(idsOf(field, value)), number: numberOf, pair: pairOf, json: jsonOf };
// The policy's options by name, as the verifier knows them; and what the proof is called.
let OPTIONS;

function optionsOf(options) {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw wrong("options", "has to be an object");
  }
  const read = {};
  for (const option of Reflect.ownKeys(options)) {
    if (!Object.hasOwn(OPTIONS, option)) {
      throw wrong(`options.${String(option)}`, `is no option: there are ${Object.keys(OPTIONS).join(", ")}`);
    }
    const value = options[option];
    if (value !== undefined) read[option] = OPTIONS[option](`options.${option}`, value);
  }
  return read;
}

let loaded;

/**
 * Loads the verifier, once. A browser fetches it from beside this file; Node reads it from there. `module` may be the bytes
 * of tessera_wasm_bg.wasm, where neither is possible.
 */
export async function load(module) {
  if (loaded === undefined) {
    let bytes;
    if (module !== undefined) {
      bytes = bytesOf("module", module);
    } else {
      const url = new URL("./tessera_wasm_bg.wasm", import.meta.url);
      if (url.protocol === "file:") {
        bytes = await (await import("node:fs/promises")).readFile(url);
      } else {
        bytes = await (await fetch(url)).arrayBuffer();
      }
    }
    wasm.initSync({ module: new WebAssembly.Module(bytes) });
    OPTIONS = { name: textOf, reveals: listOf, ...Object.fromEntries(JSON.parse(wasm.options()).map(({ name, kind }) => [name, KINDS[kind]])) };
    loaded = true;
  }
}

// A trap (a defect, or no memory) leaves a broken instance behind: it is replaced, and nothing was decided.
function call(work) {
  if (!loaded) throw new TesseraError("the verifier is not loaded: await load() first");
  try {
    return work();
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError) && !(error instanceof RangeError)) {
      throw new TesseraError(error instanceof Error ? error.message : String(error));
    }
    let reason = "";
    try {
      reason = wasm.panicked();
    } catch {
      // Then there is no reason to be had.
    }
    wasm.__wbg_reset_state();
    generation += 1;
    throw new TesseraError(`internal error, please report it: ${reason || error.message}`);
  }
}

let generation = 0;

/** A model key, read and checked once. */
export class Key {
  #bytes;
  #raw;
  #generation;

  constructor(bytes) {
    this.#bytes = bytesOf("key", bytes);
    this.#read();
  }

  #read() {
    this.#raw = call(() => new wasm.RawKey(this.#bytes));
    this.#generation = generation;
  }

  // After a trap all keys are read again.
  #call(work) {
    if (this.#generation !== generation) this.#read();
    return JSON.parse(call(() => work(this.#raw)));
  }

  describe() {
    return this.#call((raw) => raw.describe());
  }

  verify(proof, options = {}) {
    const bytes = bytesOf("proof", proof);
    const { name = "the proof", reveals = [], ...policy } = optionsOf(options);
    const lengths = Uint32Array.from(reveals, (own) => own.length);
    const verdict = this.#call((raw) => raw.verify(bytes, name, JSON.stringify(policy), false, joined(reveals), lengths));
    if (verdict.error !== undefined) throw new TesseraError(verdict.error);
    return verdict;
  }
}

/** The verdict on a proof. */
export function verify(key, proof, options) {
  return (key instanceof Key ? key : new Key(key)).verify(proof, options);
}

/** What a proof says of itself: nothing is verified. */
export function describeProof(proof) {
  const bytes = bytesOf("proof", proof);
  return JSON.parse(call(() => wasm.describe_proof(bytes)));
}
