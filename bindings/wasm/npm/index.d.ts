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
  /** Null in the place of an id that the proof hides. */
  prompt_ids?: (number | null)[];
  output_ids?: (number | null)[];
  /** What the proof hides, if it hides anything. */
  hidden?: { activations: boolean; prompt: boolean; output: boolean; weights: boolean };
  /** Where ids are hidden: how many there are, how many are shown, and how many rows are leading rows. */
  lengths?: { prompt: number; output: number };
  public_tokens?: { prompt: number; output: number };
  leading_rows?: number;
  /** Of a proof that hides: positions of ids that reveals say, prompt first, and for how many more reveals the proof has room. */
  revealed?: number[];
  reveals_left?: number;
  /** Null if ids of it are hidden, or if there is no text; then `no_text` says why. Texts are hostile. */
  prompt_text?: string | null;
  output_text?: string | null;
  no_text?: string;
  prompt_special_tokens?: SpecialToken[] | null;
  output_special_tokens?: SpecialToken[] | null;
  /** The model ended the text, or it stops at its length. Null if ids of the output are hidden. */
  finish_reason?: "stop" | "length" | null;
  end_token?: number | null;
  end_tokens_inside?: number[] | null;
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
  /** What may help with the expectation that `reason` is about. */
  help?: string;
  /** Every expectation by name: `model`, `prompt`, `output`, `complete`, `context`, `min_bits`. */
  policy?: Record<string, Check>;
  /** Why expectations that are met say less than they seem to. */
  warnings?: string[];
  /** For people: nothing in it can be mistaken for something else. */
  shown: {
    reason: string | null;
    help: string | null;
    warnings: string[];
    prompt?: string;
    output?: string;
    end?: string;
    /** Prompt and output as a conversation, if the prompt is one of a known template. Line ends are as they are. */
    conversation?: Turn[];
  };
}

/**
 * What the proof has to be about. Any other option, and a value of another type, is a TypeError that names it: an option that
 * is misspelt must not leave out what it asks for.
 */
export interface Options {
  /** What the proof is called in reasons. */
  name?: string;
  /** Reveals of ids that the proof hides: the verdict has these ids. One that is not true of this proof is a reason to reject. */
  reveals?: Iterable<Bytes>;
  /** The prompt's ids are the encoding of this text; with `chat`, of the chat that asks it. */
  expectPrompt?: string;
  /** The prompt is this conversation, in the words of the key's chat template. Of two fields of a message, the first is first in the template. */
  expectMessages?: readonly Message[];
  chat?: boolean;
  /** The system message of the expected chat. */
  system?: string;
  /** The day of the expected chat, where the template writes it into the prompt: 2026-11-26, or 2026-11-26T17:00:05, UTC. */
  date?: string;
  /** Functions that the model may call in the expected chat, as in OpenAI's interface. */
  tools?: readonly object[];
  /** A chat template (Jinja) in place of the key's own, or the name of one of the key's. */
  chatTemplate?: string;
  chatTemplateName?: string;
  /** Query and document, for a reranker. */
  expectPair?: readonly [string, string];
  /** Integers from 0 to 2^32 - 1, as numbers. */
  expectPromptIds?: Iterable<number>;
  /** The output reads exactly like this; special tokens are not shown in a text. */
  expectOutput?: string;
  expectOutputIds?: Iterable<number>;
  /** The last id of the output, and no id before, is one by which the model ends a text. */
  expectComplete?: boolean;
  /** Id of the model, 64 hexadecimal digits. */
  expectModel?: string;
  /** 64 hexadecimal digits. */
  expectContext?: string;
  /** The fewest bits of security: 90 or more. */
  minBits?: number;
}

/** A message of a conversation; templates may know more fields. */
export interface Message {
  role: string;
  content?: unknown;
  [field: string]: unknown;
}

/** What became of an expectation; `met` is null where nobody can say. */
export interface Check {
  met: boolean | null;
  reason?: string;
  help?: string;
  warnings?: string[];
}

/** A turn of a conversation; the last one is the output, which the model generated. */
export interface Turn {
  role: string;
  text: string;
  generated: boolean;
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
