// The calls that verify a proof, and the states between them, which are those of docs/chain.md: a state follows from calls of contracts
// that have none, so it can be found again at any time.
import { keccak256 } from "ethers";
import { bytes, number, pointed, word } from "./encoding.mjs";

/** Gas and bytes of a transaction, at most: the protocol's limits, and room for what is around calldata. */
export const GAS = 1 << 24;
export const BYTES = (1 << 17) - 512;

const digest = (hex) => keccak256(`0x${hex}`).slice(2);
const padded = (hex) => Math.ceil(hex.length / 64) * 32;
/** The digest that is left of what is done. */
export const DONE = word(1);
export const NONE = word(0);

/** Calldata of the verifier's functions, without "0x". `names` has their selectors. */
export function encoder(names) {
  const call = (name, ...args) => names[name] + args.join("");
  return {
    begin: (header, program, own) => call("begin", word(96), program, word(96 + 32 + padded(header)), bytes(header), bytes(own)),
    follow: (id, state, segment, behind) => call("follow", id, word(128), word(128 + state.length / 2), behind, state, bytes(segment)),
    derive: (id, state, segment) => call("derive", id, word(96), word(96 + state.length / 2), state, bytes(segment)),
    commit: (id, state, first, second) =>
      call("commit", id, word(128), word(128 + state.length / 2), word(160 + state.length / 2 + padded(first)), state, bytes(first), bytes(second)),
    stages: (name, id, state, count, part) => call(name, id, word(128), word(count), word(160 + padded(state)), bytes(state), bytes(part)),
    many: (calls) => {
      const starts = calls.reduce((all, own) => [...all, all[all.length - 1] + 32 + padded(own)], [32 * calls.length]);
      return call("many", word(32), word(calls.length), ...starts.slice(0, -1).map(word), ...calls.map(bytes));
    },
    standing: (id) => call("standing", id),
    verified: (plan, prompt, output) => call("verified", plan, prompt, output),
  };
}

/**
 * The steps of a proof that `tessera chain pack` has packed. `ask(part, data)` calls a contract without state; parts are named as the
 * verifier names them. Every step says which of the three states it takes, and its calldata.
 */
export async function steps(packed, selectors, ask) {
  const encode = encoder(selectors.Verifier);
  const of = (part, name, ...args) => ask(part, selectors[part][name] + args.join(""));
  const { plan, header, program, behind, said, opening, stark } = packed;
  // What is said, and the program.
  const first = await of("SAYING", "say", word(96), behind[0], word(128 + padded(header)), bytes(header), bytes(said));
  let state = first.slice(192);
  const saidDigest = (own) => digest(word(1) + word(64) + own);
  const id = digest(plan + saidDigest(state));
  const main = [{ about: "what is said before the opening", takes: NONE, data: encode.begin(header, behind[0], said) }];
  for (let i = 0; i < program.length; i++) {
    const about = `segment ${i + 1} of ${program.length} of the program`;
    const last = i + 1 === program.length;
    const data = last ? encode.derive(id, state, program[i]) : encode.follow(id, state, program[i], behind[i + 1]);
    main.push({ about, takes: saidDigest(state), data });
    const next = last
      ? await of("DERIVING", "derive", word(64), word(64 + state.length / 2), state, bytes(program[i]))
      : await of("DERIVING", "follow", word(96), word(96 + state.length / 2), behind[i + 1], state, bytes(program[i]));
    state = next.slice(64);
  }
  // Both conversations.
  const data = encode.commit(id, state, opening.conversation, stark.conversation);
  main.push({ about: "conversations of opening and STARK", takes: digest(word(2) + word(64) + state), data });
  const opened = await of("OPENS", "open", word(64), word(64 + state.length / 2), state, bytes(opening.conversation));
  const after = opened.slice(64, 128);
  const aggregated = await of("AGGREGATES", "aggregate", word(96), after, word(96 + state.length / 2), state, bytes(stark.conversation));
  // The stages of each, one by one: as many as fit are sent together.
  const parts = {};
  for (const [name, part, own, begin] of [
    ["open", "OPENING", opening, pointed(opened, 0)],
    ["aggregate", "STARK", stark, pointed(aggregated, 0)],
  ]) {
    let state = begin;
    parts[name] = [];
    for (const stage of own.stages) {
      parts[name].push({ state, takes: digest(state), data: stage });
      const next = await of(part, "advance", word(96), word(1), word(128 + padded(state)), bytes(state), bytes(stage));
      state = pointed(next, 1);
    }
  }
  return { id, main, parts, encode };
}

/** The calls that are left, given what `standing` answers, in an order in which they can be sent. */
export function left({ id, main, parts, encode }, standing) {
  const [state, opening, stark] = [0, 1, 2].map((i) => standing.slice(64 * i, 64 * i + 64));
  const at = main.findIndex((own) => own.takes === state);
  if (state !== DONE && at < 0) throw new Error("the chain has a state of this submission that is none of this proof");
  const calls = state === DONE ? [] : main.slice(at).map(({ about, data }) => ({ about, data }));
  const rest = {};
  for (const [name, own, chain] of [["open", parts.open, opening], ["aggregate", parts.aggregate, stark]]) {
    const from = chain === NONE ? 0 : chain === DONE ? own.length : own.findIndex((stage) => stage.takes === chain);
    if (from < 0) throw new Error("the chain has a state of this submission that is none of this proof");
    rest[name] = { from, stages: own };
  }
  return { calls, rest, id, encode };
}

/**
 * The next transaction: as many calls as fit its bytes, and at most `most` of all steps. Returns calldata, what it does, and how many steps
 * that are, of which part how many stages.
 */
export function next({ calls, rest, id, encode }, most = Infinity) {
  const chosen = [];
  const about = [];
  const counts = {};
  let steps = 0;
  const size = (own) => 4 + 64 + own.reduce((sum, data) => sum + 64 + padded(data), 0);
  const fits = (own) => (own.length === 1 ? own[0].length / 2 : size(own)) <= BYTES;
  for (const call of calls) {
    if (steps === most || !fits([...chosen, call.data])) break;
    chosen.push(call.data);
    about.push(call.about);
    steps++;
  }
  if (steps === calls.length) {
    // Stages of one part follow each other in one call, with one state. The part with more left goes first, the other one fills up.
    const bytesLeft = ({ from, stages }) => stages.slice(from).reduce((sum, { data }) => sum + data.length, 0);
    const names = Object.keys(rest).sort((a, b) => bytesLeft(rest[b]) - bytesLeft(rest[a]));
    for (const name of names) {
      const { from, stages } = rest[name];
      let best = null;
      for (let count = 1; from + count <= stages.length && steps + count <= most; count++) {
        const part = stages.slice(from, from + count).map(({ data }) => data).join("");
        const data = encode.stages(name, id, stages[from].state, count, part);
        if (!fits([...chosen, data])) break;
        best = { data, count };
      }
      if (!best) continue;
      chosen.push(best.data);
      about.push(`${name === "open" ? "opening" : "STARK"}, stages ${from + 1} to ${from + best.count}`);
      steps += best.count;
      counts[name] = best.count;
    }
  }
  return { data: chosen.length === 1 ? chosen[0] : encode.many(chosen), about: about.join("; "), steps, counts };
}

/** What is left after such a transaction. */
export function after({ calls, rest, id, encode }, { steps, counts }) {
  const stages = Object.values(counts).reduce((sum, own) => sum + own, 0);
  const moved = Object.entries(rest).map(([name, own]) => [name, { ...own, from: own.from + (counts[name] ?? 0) }]);
  return { calls: calls.slice(steps - stages), rest: Object.fromEntries(moved), id, encode };
}
