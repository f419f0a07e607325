// A whole proof in transactions, within the limits of a chain, and what a consumer makes of the fact: `node test/verify.mjs VECTORS`, with
// what `chain_vectors` prints. Every transaction is also tried as it must not be.
import { readFileSync } from "node:fs";
import { compile } from "../lib/compile.mjs";
import { bytes, number, pointed, sections, word } from "../lib/encoding.mjs";
import { start } from "../lib/node.mjs";

/** Gas and bytes of a transaction, at most. */
const GAS = 1 << 24;
const BYTES = 1 << 17;
/** Bytes of a contract, at most. */
const CODE = 24576;

const [file, cut] = process.argv.slice(2);
if (!file) {
  console.error("usage: node test/verify.mjs VECTORS [cut], with the same program in more segments");
  process.exit(2);
}
const lines = readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const named = (name) => lines.find((own) => own.name === name);
const honest = (name) => lines.find((own) => own.name === name && own.expected).input;
const plan = named(cut ? "cut plan" : "plan");
const said = named("said").data;

/** The numbers of a header, by the names that Plan.sol gives them. */
const names = ["layers", "blowup", "queries", "log", "units", "coordinates", "linear", "tokens", "outputs", "vocabulary", "context"];
names.push("first", "run", "tiles", "message", "column", "opened", "band", "padding", "bits", "results", "trees");
const header = Object.fromEntries(names.map((name, i) => [name, parseInt(plan.header.slice(192 + 8 * i, 200 + 8 * i), 16)]));

/** Where the conversation of the opening begins and ends in the vector of the opening. */
function conversation() {
  const log2 = (count) => Math.ceil(Math.log2(count));
  const codes = [
    { log: header.message, opened: header.opened, band: header.band },
    { log: header.log, opened: header.units, band: 0 },
  ];
  const begin = codes.reduce((at, { opened, band }) => at + 48 + 16 * ((opened >> band) + 12 + band), 76);
  let end = begin;
  for (const { log, opened, band } of codes) {
    const inColumn = log - 12;
    end += 32 * (log2(((opened - 1) >> inColumn) + 1) + inColumn - band) + 16;
  }
  const variables = Math.max(header.message, header.log) - 1;
  let left = variables;
  while (left > 8) left -= 3;
  const oracles = (variables - left) / 3;
  end += 32 * variables + 32 + 32 * (variables - left) + 32 * oracles + (16 << left) + 8;
  return { begin, end, oracles };
}

const proof = { open: honest("opening"), aggregate: honest("stark") };
const opening = conversation();
// Claimed sum, two roots, samples, three roots, the last layer, a nonce.
const stark = { begin: 240, end: 240 + 80 + 16 * 30 + 96 + 16 * 128 + 8 };
const ofOpening = proof.open.slice(2 * opening.begin, 2 * opening.end);
const ofStark = proof.aggregate.slice(2 * stark.begin, 2 * stark.end);

const files = [
  ["contracts/Phases.sol", "Saying"],
  ["contracts/Phases.sol", "Deriving"],
  ["contracts/Phases.sol", "Opens"],
  ["contracts/Phases.sol", "Aggregates"],
  ["contracts/Stages.sol", "OpeningStages"],
  ["contracts/Stages.sol", "StarkStages"],
];
const parts = files.map(([path, name]) => compile(path, name));
const verifier = compile("contracts/Verifier.sol", "Verifier");
const bounty = compile("contracts/Bounty.sol", "Bounty");
const hash = compile("test/Hash.sol", "Hash");
for (const { size } of [...parts, verifier, bounty]) if (size > CODE) throw new Error(`${size} bytes of code, more than a chain takes`);

const node = await start();
let refused = 0;
let later = 0;
let all = 0;
try {
  const [from, other] = await node.rpc("eth_accounts");
  const receiptOf = async (transaction) => {
    const sent = await node.rpc("eth_sendTransaction", { from, ...transaction });
    for (;;) {
      const receipt = await node.rpc("eth_getTransactionReceipt", sent);
      if (receipt) return receipt;
    }
  };
  const deploy = async (code, ...args) => {
    const { contractAddress, status } = await receiptOf({ data: code + args.map(word).join(""), gas: "0x1000000" });
    if (status !== "0x1") throw new Error("a contract is not deployed");
    return contractAddress;
  };
  const addresses = [];
  for (const { code } of parts) addresses.push(await deploy(code));
  const to = await deploy(verifier.code, ...addresses);
  const market = await deploy(bounty.code, to);
  const gas = `0x${GAS.toString(16)}`;
  const data = (contract, name, ...args) => `0x${contract.selectors[name]}${args.join("")}`;
  const call = async (input, whom = to) => (await node.rpc("eth_call", { from, to: whom, data: input, gas }, "latest")).slice(2);
  const keccak = async (hex) => {
    const whom = await hashing;
    return call(data(hash, "digest", word(32), bytes(hex)), whom);
  };
  const hashing = deploy(hash.code);

  /** Sends a transaction that has to succeed. */
  async function send(about, input) {
    const size = input.length / 2 - 1;
    const receipt = await receiptOf({ to, data: input, gas });
    const used = Number(receipt.gasUsed);
    if (receipt.status !== "0x1" || size > BYTES || used > GAS) throw new Error(`${about}: refused, or beyond a limit: ${used} gas, ${size} bytes`);
    all += used;
    console.log(`${about}: ${used} gas, ${size} bytes`);
  }
  /** What has to be refused, for a reason. */
  async function refuse(about, input, reason, whom = to) {
    let answer;
    try {
      answer = await call(input, whom);
    } catch (error) {
      if (!/revert|out of gas|OutOfGas/i.test(error.message) || !reason.test(error.message)) throw new Error(`${about}: ${error.message}`);
      refused++;
      return;
    }
    throw new Error(`${about}: accepted, ${answer.slice(0, 64)}`);
  }
  /** A string with one bit of one byte changed. */
  const flipped = (hex, at, bit = 0) => hex.slice(0, 2 * at) + (parseInt(hex.slice(2 * at, 2 * at + 2), 16) ^ (1 << bit)).toString(16).padStart(2, "0") + hex.slice(2 * at + 2);
  /** Some places of a string, spread. */
  const places = (hex, count) => Array.from({ length: count }, (_, i) => Math.floor(((hex.length / 2) * (i + 0.5)) / count));

  const begin = (head, program, own) => data(verifier, "begin", word(96), program, word(128 + Math.ceil(head.length / 64) * 32), bytes(head), bytes(own));
  const derive = (id, state, segment) => data(verifier, "derive", id, word(96), word(96 + state.length / 2), state, bytes(segment));
  const follow = (id, state, segment, behind) =>
    data(verifier, "follow", id, word(128), word(128 + state.length / 2), behind, state, bytes(segment));
  /** The call of a segment of the program. */
  const segments = plan.program.length;
  const segment = (i, id, state, own = plan.program[i]) =>
    i + 1 < segments ? follow(id, state, own, plan.behind[i + 1]) : derive(id, state, own);
  const commit = (id, state, first, second) =>
    data(verifier, "commit", id, word(128), word(128 + state.length / 2), word(160 + state.length / 2 + Math.ceil(first.length / 64) * 32), state, bytes(first), bytes(second));
  const step = (name, id, state, count, part) =>
    data(verifier, name, id, word(128), word(count), word(160 + Math.ceil(state.length / 64) * 32), bytes(state), bytes(part));
  const fact = async (...key) => number(await call(data(verifier, "verified", ...key)), 1);

  const program = plan.behind[0];
  const [prompts, outputs] = [0, 8].map((at) => parseInt(said.slice(at, at + 8), 16));
  const ids = said.slice(24, 24 + 8 * (prompts + outputs));
  const prompt = await keccak(ids.slice(0, 8 * prompts));
  const output = await keccak(ids.slice(8 * prompts));
  const key = [plan.id, prompt, output];

  // An offer for the fact that is to come.
  const offer = data(bounty, "offer", plan.id, prompt, output, word(950), word(1000));
  await receiptOf({ to: market, data: offer, value: "0x64", gas });
  const claim = data(bounty, "claim", word(0), word(other));
  await refuse("the bounty before the fact", claim, /no fact/, market);

  /** What is said has to be refused in one of the first three steps: rounds of the linear claims are found false where they end. */
  async function refuseSaid(about, own, head = plan.header) {
    const input = begin(head, program, own);
    let answer;
    try {
      answer = await call(input);
    } catch {
      await refuse(about, input, /./);
      return;
    }
    await receiptOf({ to, data: input, gas });
    let next = answer.slice(128);
    for (let i = 0; i < segments; i++) {
      const second = segment(i, answer.slice(0, 64), next);
      try {
        next = (await call(second)).slice(64);
      } catch {
        await refuse(about, second, /./);
        return;
      }
      await receiptOf({ to, data: second, gas });
    }
    await refuse(about, commit(answer.slice(0, 64), next, ofOpening, ofStark), /./);
    later++;
  }

  // The first step.
  for (const at of places(said, 24)) await refuseSaid(`what is said, byte ${at} changed`, flipped(said, at, at % 8));
  for (const back of [4, 40, 200, 400]) await refuseSaid(`what is said, ${back} bytes before its end changed`, flipped(said, said.length / 2 - back));
  for (let at = 12; at < 12 + 4 * (prompts + outputs); at += 4) {
    await refuse(`id ${(at - 12) / 4} changed`, begin(plan.header, program, flipped(said, at + 3)), /./);
  }
  // Of roots and numbers that say what is proved and how; others make a plan of another model.
  for (const at of [0, 40, 70, 99, 103, 107, 111, 115, 119, 123, 127, 131, 151, 155, 159, 163, 167, 171, 179]) {
    await refuseSaid(`header, byte ${at} changed`, said, flipped(plan.header, at));
  }
  const another = (await call(begin(flipped(plan.header, 175), program, said))).slice(0, 64);
  await refuse("bytes behind what is said", begin(plan.header, program, `${said}00`), /length/);
  await refuse("bytes behind the header", begin(`${plan.header}00`, program, said), /length/);
  await refuse("a clipped value", begin(plan.header, program, flipped(said, 11)), /clipped values/);
  const first = begin(plan.header, program, said);
  const begun = await call(first);
  const id = begun.slice(0, 64);
  let state = begun.slice(128);
  if (another === id) throw new Error("a plan with other bits is the same plan");
  await refuse("the second step first", segment(0, id, state), /another state/);
  // Several calls in one transaction: where one is refused, none is done.
  const wide = (hex) => 32 + Math.ceil(hex.length / 64) * 32;
  const many = (one, two) => data(verifier, "many", word(32), word(2), word(64), word(64 + wide(one)), bytes(one), bytes(two));
  const spoiled = many(first.slice(2), segment(0, id, flipped(state, 40)).slice(2));
  await refuse("two steps, the second one changed", spoiled, /./);
  if ((await receiptOf({ to, data: spoiled, gas })).status !== "0x0") throw new Error("two steps, the second one changed: accepted");
  await send("what is said before the opening", first);
  await refuse("the first step again", first, /begun already/);

  // The second step, segment by segment.
  const said_ = state;
  for (let i = 0; i < segments; i++) {
    const about = `segment ${i} of the program`;
    const own = plan.program[i];
    for (const at of places(own, 6)) await refuse(`${about}, byte ${at} changed`, segment(i, id, state, flipped(own, at)), /another segment/);
    for (const at of places(state, 16)) await refuse(`${about}, state, byte ${at} changed`, segment(i, id, flipped(state, at)), /./);
    await refuse(`${about}, of another submission`, segment(i, word(7), state), /another state/);
    await refuse(`${about}, the third step before it`, commit(id, state, ofOpening, ofStark), /./);
    for (let other = 0; other < segments; other++) {
      if (other !== i) await refuse(`${about}, another one`, segment(other, id, state), /another segment/);
    }
    // As if it were the last one, or not: what is behind it is in the digest.
    await refuse(`${about}, others behind it`, follow(id, state, own, i + 1 < segments ? word(7) : word(1)), /another segment/);
    await refuse(`${about}, none behind it`, follow(id, state, own, word(0)), /last segment/);
    if (i + 1 < segments) await refuse(`${about}, as the last one`, derive(id, state, own), /another segment/);
    if (i > 0) await refuse(`${about}, with the state before the first`, segment(i, id, said_), /another state/);
    const second = segment(i, id, state);
    const derived = (await call(second)).slice(64);
    await send(about, second);
    await refuse(`${about}, again`, second, /another state/);
    state = derived;
  }

  // The third step.
  for (const at of places(ofOpening, 16)) await refuse(`opening, byte ${at} changed`, commit(id, state, flipped(ofOpening, at), ofStark), /./);
  for (const at of places(ofStark, 8)) await refuse(`STARK, byte ${at} changed`, commit(id, state, ofOpening, flipped(ofStark, at)), /./);
  for (const at of places(state, 16)) await refuse(`state, byte ${at} changed`, commit(id, flipped(state, at), ofOpening, ofStark), /./);
  const third = commit(id, state, ofOpening, ofStark);
  const committed = await call(third);
  const states = { open: pointed(committed, 0), aggregate: pointed(committed, 1) };
  await send("conversations of opening and STARK", third);
  await refuse("the third step again", third, /another state/);

  // The stages.
  const stages = {
    open: sections(proof.open, opening.end, [4, 4, ...Array(opening.oracles).fill(16)]),
    aggregate: sections(proof.aggregate, stark.end, [4, 4, 4, 4, 16, 16, 16]),
  };
  // What `tessera chain pack` makes of the same proof.
  const packed = named("packed");
  const parts_ = { open: packed.opening, aggregate: packed.stark };
  const conversations = { open: ofOpening, aggregate: ofStark };
  for (const name of ["open", "aggregate"]) {
    const own = stages[name].slice(1).map((end, i) => proof[name].slice(2 * stages[name][i], 2 * end));
    const same = parts_[name].conversation === conversations[name] && parts_[name].stages.join(",") === own.join(",");
    if (!same || packed.said !== said) throw new Error(`${name}: packed in another way`);
  }
  for (const name of ["open", "aggregate"]) {
    const cut = stages[name];
    for (let stage = 0; stage + 1 < cut.length; ) {
      let count = 1;
      while (stage + count + 1 < cut.length && cut[stage + count + 1] - cut[stage] < BYTES - 40000) count++;
      const part = proof[name].slice(2 * cut[stage], 2 * cut[stage + count]);
      const about = `${name}, stages ${stage} to ${stage + count - 1}`;
      const own = step(name, id, states[name], count, part);
      const after = await call(own);
      for (const at of places(part, 4).map((at) => Math.max(at, 16))) {
        await refuse(`${about}, byte ${at} changed`, step(name, id, states[name], count, flipped(part, at, at % 8)), /./);
      }
      await refuse(`${about}, of another submission`, step(name, word(7), states[name], count, part), /another state/);
      if ((await fact(...key)) !== 0) throw new Error("a fact before everything was verified");
      await send(about, own);
      await refuse(`${about}, again`, own, /another state/);
      states[name] = pointed(after, 0);
      stage += count;
    }
  }

  const answer = await call(data(verifier, "verified", ...key));
  if (number(answer, 0) !== header.bits || number(answer, 1) === 0) throw new Error("no fact when everything was verified");
  for (let i = 0; i < 3; i++) {
    const wrong = key.map((own, k) => (k === i ? word(7) : own));
    if ((await fact(...wrong)) !== 0) throw new Error("a fact of another model, prompt or output");
  }
  await refuse("the whole again", first, /begun already/);

  // The consumer.
  const balance = async () => BigInt(await node.rpc("eth_getBalance", other, "latest"));
  const before = await balance();
  const paid = await receiptOf({ to: market, data: claim, gas });
  if (paid.status !== "0x1" || (await balance()) !== before + 100n) throw new Error("the bounty is not paid");
  await refuse("the bounty again", claim, /nothing left/, market);
  console.log(`a fact with ${header.bits / 10} bits; ${all} gas in all, ${refused} transactions refused as they had to be, ${later} of them in the third step`);
  const sizes = parts.map(({ size }, i) => `${files[i][1]} ${size}`).join(", ");
  console.log(`bytes of code: Verifier ${verifier.size}, ${sizes}, Bounty ${bounty.size}`);
} finally {
  node.stop();
}
