// Verifies Tessera proofs. See index.d.ts for what is what.
import * as wasm from "./tessera_wasm.js";

/** A key or proof that cannot be used, or a proof that a key cannot decide about. */
export class TesseraError extends Error {
  name = "TesseraError";
}

let loaded;

/**
 * Loads the verifier, once. A browser fetches it from beside this file; Node reads it from there. `module` may be the bytes
 * of tessera_wasm_bg.wasm, where neither is possible.
 */
export async function load(module) {
  if (loaded === undefined) {
    let bytes = module;
    if (bytes === undefined) {
      const url = new URL("./tessera_wasm_bg.wasm", import.meta.url);
      if (url.protocol === "file:") {
        bytes = await (await import("node:fs/promises")).readFile(url);
      } else {
        bytes = await (await fetch(url)).arrayBuffer();
      }
    }
    wasm.initSync({ module: new WebAssembly.Module(bytes) });
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
    this.#bytes = new Uint8Array(bytes);
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

  verify(proof, { name = "the proof", promptIds, outputIds, outputText, context } = {}) {
    const ids = (list) => (list === undefined ? undefined : Uint32Array.from(list));
    const bytes = new Uint8Array(proof);
    const verdict = this.#call((raw) => raw.verify(bytes, name, ids(promptIds), ids(outputIds), outputText, context));
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
  return JSON.parse(call(() => wasm.describe_proof(new Uint8Array(proof))));
}
