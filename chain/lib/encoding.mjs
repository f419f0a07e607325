// Numbers and bytes as contracts take and return them, in hex.

export const word = (value) => BigInt(value).toString(16).padStart(64, "0");
export const bytes = (hex) => word(hex.length / 2) + hex.padEnd(Math.ceil(hex.length / 64) * 64, "0");
export const number = (hex, at) => Number(BigInt(`0x${hex.slice(64 * at, 64 * at + 64)}`));

/** The bytes that a word of an answer points to. */
export const pointed = (hex, at) => hex.slice(2 * number(hex, at) + 64).slice(0, 2 * number(hex.slice(2 * number(hex, at)), 0));

/** Where the sections end that begin at a byte: of numbers of four or sixteen bytes, and nodes. */
export function sections(hex, from, sizes) {
  const ends = [from];
  for (const size of sizes) {
    const at = ends[ends.length - 1];
    const count = (place) => parseInt(hex.slice(2 * (at + place), 2 * (at + place) + 8), 16);
    ends.push(at + 8 + size * count(0) + 32 * count(4));
  }
  if (ends[ends.length - 1] !== hex.length / 2) throw new Error("the sections are not the rest of the proof");
  return ends;
}
