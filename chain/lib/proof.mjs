// The calls that verify a proof, and the states between them, which are those of docs/chain.md: a state follows from calls of contracts
// that have none, so it can be found again at any time.
import { getCreate2Address, keccak256 } from "ethers";
import { bytes, pointed, pointedAll, sized, word } from "./encoding.mjs";

/** Gas and bytes of a transaction, at most: the protocol's limits, and room for what is around calldata. */
export const GAS = 1 << 24;
export const BYTES = (1 << 17) - 512;

/** The parts of a submission, by the numbers that the contracts give to them, and by the names of their contracts. */
export const NAMES = ["program", "opening"];
export const PARTS = ["PROGRAM", "OPENING"];

const digest = (hex) => keccak256(`0x${hex}`).slice(2);
const padded = (hex) => Math.ceil(hex.length / 64) * 32;
/** The digest that is left of what is done, and that of what is not begun. */
export const DONE = word(1);
export const NONE = word(0);

/** What a page of a program is created by, and where the contract of pages stores it. */
const creation = (page) => `600b5981380380925939f300${page}`;
export const pageAddress = (pages, page) => getCreate2Address(pages, `0x${NONE}`, keccak256(`0x${creation(page)}`));

/** Calldata that stores a page. */
export const storing = (names, page) => names.store + word(32) + bytes(page);

/** Calldata of the verifier's functions, without "0x". `names` has their selectors. */
export function encoder(names) {
  const call = (name, ...args) => names[name] + args.join("");
  /** Two lists of bytes. */
  const both = ([first, second]) => word(64) + word(96 + padded(first)) + bytes(first) + bytes(second);
  const said = (header, program, lists, more) => {
    const [first, second] = [bytes(header), both(lists)];
    const front = 32 * (more === undefined ? 3 : 4);
    const [at, then] = [front + first.length / 2, front + (first.length + second.length) / 2];
    const places = more === undefined ? [word(front), program, word(at)] : [word(front), program, word(at), word(then)];
    return places.join("") + first + second + (more === undefined ? "" : bytes(more));
  };
  return {
    begin: (header, program, lists, more) => call("begin", said(header, program, lists, more)),
    converse: (header, program, lists) => call("converse", said(header, program, lists)),
    advance: (id, more) => call("advance", id, word(64), bytes(more)),
    abandon: (id) => call("abandon", id),
    standing: (sender, id) => call("standing", word(sender), id),
    verified: (plan, prompt, output, context) => call("verified", plan, prompt, output, context),
  };
}

/** Stages of a part in what `begin` and `advance` take: of the state before them, or of what is before them in the same transaction. */
export const piece = (part, count, state, data) => word(part).slice(62) + word(count).slice(62) + sized(state) + sized(data);

/** Calldata of a contract of stages. */
export const stagesOf = (names, state, count, data) =>
  names.advance + word(96) + word(count) + word(128 + padded(state)) + bytes(state) + bytes(data);

/** What a segment of a program takes: the digest of those behind it, and where its pages are. */
export const segment = (pages, own, behind) =>
  behind + word(own.length).slice(62) + own.map((page) => pageAddress(pages, page).slice(2).toLowerCase()).join("");

/**
 * A proof that `tessera chain pack` has packed: the submission's identifier, what begins it, and the stages of its parts with the states
 * before them. `ask(contract, data)` calls a contract; contracts are named as the verifier names them. `pages` is where pages are. Where the
 * program is not stored, states behind its segments are not known: they are made up, to see how long they are about.
 */
export async function steps(packed, selectors, pages, ask, stored = true) {
  const encode = encoder(selectors.Verifier);
  const { header, program, behind, said, opening } = packed;
  const lists = [said, opening.conversation];
  const found = await ask("Verifier", encode.converse(header, behind[0], lists));
  const id = found.slice(0, 64);
  const states = pointedAll(found, 6, 2);
  const data = [program.map((own, i) => segment(pages, own, behind[i + 1])), opening.stages];
  const parts = [];
  for (const [part, name] of PARTS.entries()) {
    let state = states[part];
    parts.push([]);
    for (const [i, stage] of data[part].entries()) {
      parts[part].push({ state, takes: digest(state), data: stage, gas: gasOf(packed, part, i) });
      if (part > 0 || stored) state = pointed(await ask(name, stagesOf(selectors[name], state, 1, stage)), 1);
    }
  }
  return { id, parts, encode, begin: (more) => encode.begin(header, behind[0], lists, more), length: encode.begin(header, behind[0], lists, "").length / 2 };
}

/** Gas of a stage, about, without its calldata: a segment is estimated where it is packed. */
function gasOf({ gas, header, opening: { stages, trees } }, part, i) {
  if (part === 0) return gas?.[i] ?? 4_000_000;
  // Behind the last one every query is compared with the last message.
  const queries = i + 1 < stages.length ? 0 : 2 * parseInt(header.slice(144, 152), 16);
  return ((i < trees ? 17 : 46) * stages[i].length) / 2 + 60_000 + 9_500 * queries;
}
/** Gas of what begins a submission. */
const BEGIN = 3_600_000;

/** What is left of a proof, given what `standing` answers. */
export function left({ parts, ...own }, standing) {
  const begun = standing.slice(0, 64) !== NONE;
  const from = parts.map((stages, part) => {
    const digest = standing.slice(64 * part, 64 * part + 64);
    const place = !begun ? 0 : digest === DONE ? stages.length : stages.findIndex(({ takes }) => takes === digest);
    if (place < 0) throw new Error("the chain has a state of this submission that is none of this proof");
    return place;
  });
  return { ...own, parts, begun, from };
}

/** Stages of every part from a place up to another one, as a transaction; what `begin` leaves is not sent. */
function transaction({ id, parts, encode, begin, begun }, from, to) {
  const pieces = from.map((first, part) => {
    if (first === to[part]) return "";
    const own = parts[part].slice(first, to[part]);
    return piece(part, own.length, begun ? own[0].state : "", own.map(({ data }) => data).join(""));
  });
  return begun ? encode.advance(id, pieces.join("")) : begin(pieces.join(""));
}

/** Bytes and gas of the same, about. */
function weight({ parts, begun, length }, from, to) {
  let [size, gas] = begun ? [132, 150_000] : [length, BEGIN];
  for (const [part, first] of from.entries()) {
    const own = parts[part].slice(first, to[part]);
    if (own.length > 0) size += 8 + (begun ? own[0].state.length / 2 : 0);
    for (const { data, gas: work } of own) [size, gas] = [size + data.length / 2, gas + work];
  }
  return { size: size + 32, gas: 21_000 + Math.max(gas + 16 * size, 40 * size) };
}

/**
 * The next transaction: one of the fewest that everything that is left takes, with these limits. Returns calldata, what it does, and what
 * is left behind it.
 */
export function next(rest, most = { bytes: BYTES, gas: GAS }) {
  const { parts, begun, from } = rest;
  const ends = parts.map((own) => own.length);
  const best = new Map();
  /** The fewest transactions from a place on, and where the first one ends. */
  const fewest = (place, first) => {
    if (!first && place.every((own, part) => own === ends[part])) return { count: 0, size: 0 };
    const key = place.join();
    if (!first && best.has(key)) return best.get(key);
    let found = { count: Infinity, size: Infinity };
    const own = { ...rest, begun: begun || !first };
    for (let a = place[0]; a <= ends[0]; a++) {
      for (let b = place[1]; b <= ends[1]; b++) {
        const to = [a, b];
        const nothing = to.every((end, part) => end === place[part]);
        if (nothing && (!first || begun)) continue;
        const { size, gas } = weight(own, place, to);
        const one = to.reduce((sum, end, part) => sum + end - place[part], 0) <= 1;
        if (size > most.bytes) break;
        // One stage is tried whatever it takes: what it takes is not known better.
        if (gas > most.gas && !one) break;
        const behind = fewest(to, false);
        const all = { count: behind.count + 1, size: behind.size + size, to };
        if (all.count < found.count || (all.count === found.count && all.size < found.size)) found = all;
      }
    }
    if (!first) best.set(key, found);
    return found;
  };
  const { to, count } = fewest(from, true);
  if (to === undefined) throw new Error("a stage has more bytes than a transaction");
  const about = begun ? [] : ["all that is said"];
  for (const [part, first] of from.entries()) {
    if (to[part] > first) about.push(`${NAMES[part]}, stages ${first + 1} to ${to[part]} of ${ends[part]}`);
  }
  const stages = to.reduce((sum, end, part) => sum + end - from[part], 0);
  return { data: transaction(rest, from, to), about: about.join("; "), stages, count, after: { ...rest, begun: true, from: to } };
}

/**
 * The next transaction that has few enough bytes and little enough gas, with its gas as `estimate(data)` says it. What stages take is only
 * guessed before.
 */
export async function largest(rest, most, estimate) {
  for (let gas = most.gas; ; gas = Math.floor(gas * 0.9)) {
    const own = next(rest, { bytes: most.bytes, gas });
    const small = own.stages === 0 || (own.stages === 1 && rest.begun) || gas < most.gas / 8;
    try {
      const needed = await estimate(own.data);
      if (needed <= BigInt(most.gas)) return { ...own, gas: needed };
    } catch (error) {
      if (small || error.final) throw error;
    }
    if (small) throw new Error(`${own.about}: more gas than a transaction has`);
  }
}

/** Whether nothing is left. */
export const finished = ({ parts, begun, from }) => begun && from.every((own, part) => own === parts[part].length);
