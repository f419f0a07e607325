// Numbers and bytes as contracts take and return them, in hex.

export const word = (value) => BigInt(value).toString(16).padStart(64, "0");
export const bytes = (hex) => word(hex.length / 2) + hex.padEnd(Math.ceil(hex.length / 64) * 64, "0");
export const number = (hex, at) => Number(BigInt(`0x${hex.slice(64 * at, 64 * at + 64)}`));

/** The bytes that a word of an answer points to. */
export const pointed = (hex, at) => hex.slice(2 * number(hex, at) + 64).slice(0, 2 * number(hex.slice(2 * number(hex, at)), 0));

/** The lists of bytes, so many, of an array of a fixed length that a word of an answer points to. */
export function pointedAll(hex, at, count) {
  const own = hex.slice(2 * number(hex, at));
  return Array.from({ length: count }, (_, i) => pointed(own, i));
}

/** Bytes behind their length, which has three bytes. */
export const sized = (hex) => (hex.length / 2).toString(16).padStart(6, "0") + hex;
