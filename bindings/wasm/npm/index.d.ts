/** Bytes of a key or proof. Arrays of anything else, and buffers that are detached, are a TypeError that names the argument. */
export type Bytes = Uint8Array | ArrayBuffer;

/** A key or proof that cannot be used, or a proof that a key cannot decide about: it is of another model. */
export class TesseraError extends Error {}

/** Loads the verifier, once; `module` are the bytes of tessera_wasm_bg.wasm, where it cannot be fetched or read. */
export function load(module?: Bytes): Promise<void>;

/** A special token of a prompt or output. */
export interface SpecialToken {
  position: number;
  id: number;
  /** Null for an id that the tokenizer does not know. */
  name: string | null;
}

/** What a verdict says, with the fields of `tessera verify --json`. What is proved is there if anything is. */
export interface Verdict {
  verdict: "accept" | "reject";
  /** Why the proof is rejected. */
  reason?: string;
  /** Id of the model that the key is of. */
  model_id: string;
  proof_bytes: number;
  security_bits?: number;
  prompt_ids?: number[];
  output_ids?: number[];
  /** Null if there is no text; then `no_text` says why. Texts are hostile. */
  prompt_text?: string | null;
  output_text?: string | null;
  no_text?: string;
  prompt_special_tokens?: SpecialToken[] | null;
  output_special_tokens?: SpecialToken[] | null;
  /** The model ended the text, or it stops at its length. */
  finish_reason?: "stop" | "length";
  end_token?: number | null;
  end_tokens_inside?: number[];
  /** In the place of an output, what an encoder makes of the prompt: the integers that are proved, and what they stand for. */
  integers?: number[];
  norm?: number;
  embedding?: number[];
  /** In the place of norm and embedding, what the head of a reranker makes of the integers. */
  logits?: number[];
  scores?: number[];
  mode?: "unified" | "chain";
  chunks?: number;
  /** What the prover tied the proof to, in hexadecimal. */
  context?: string;
  /** For people: nothing in it can be mistaken for something else. */
  shown: { reason: string | null; prompt?: string; output?: string; end?: string };
}

/**
 * What the proof has to be about. Any other option, and a value of another type, is a TypeError that names it: an option that
 * is misspelt must not leave out what it asks for.
 */
export interface Options {
  /** What the proof is called in reasons. */
  name?: string;
  /** Integers from 0 to 2^32 - 1, as numbers. */
  promptIds?: Iterable<number>;
  outputIds?: Iterable<number>;
  outputText?: string;
  /** 64 hexadecimal digits. */
  context?: string;
}

/** A model key, read and checked once. */
export class Key {
  /** Throws a TesseraError if the bytes are no usable key. */
  constructor(bytes: Bytes);
  /** What `tessera-verify inspect --json` says of the key. */
  describe(): Record<string, unknown>;
  /** Throws a TesseraError if nothing can be decided. */
  verify(proof: Bytes, options?: Options): Verdict;
}

/** The verdict on a proof. */
export function verify(key: Bytes | Key, proof: Bytes, options?: Options): Verdict;

/** What a proof says of itself: nothing is verified. */
export function describeProof(proof: Bytes): Record<string, unknown>;
