// Opening and STARK of a proof in transactions, within the limits of a chain: `node test/steps.mjs VECTORS`, with the inputs that
// `chain_vectors` prints. Every transaction is also tried as it must not be: changed, out of order, twice.
import { readFileSync } from "node:fs";
import { compile } from "../lib/compile.mjs";
import { bytes, number, pointed, sections, word } from "../lib/encoding.mjs";
import { start } from "../lib/node.mjs";

/** Gas and bytes of a transaction, at most. */
const GAS = 1 << 24;
const BYTES = 1 << 17;
/** Bytes of a contract, at most. */
const CODE = 24576;

const [file] = process.argv.slice(2);
if (!file) {
  console.error("usage: node test/steps.mjs VECTORS");
  process.exit(2);
}
const cases = readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const honest = (name) => cases.find((own) => own.name === name && own.expected).input;
const proof = { open: honest("opening"), aggregate: honest("stark") };

const parts = ["OpeningStages", "StarkStages"].map((name) => compile("contracts/Stages.sol", name));
for (const { size } of parts) if (size > CODE) throw new Error(`${size} bytes of code, more than a chain takes`);
const contract = compile("test/Steps.sol", "Steps");
const node = await start();
let refused = 0;
let all = 0;
try {
  const [from] = await node.rpc("eth_accounts");
  const receiptOf = async (transaction) => {
    const sent = await node.rpc("eth_sendTransaction", { from, ...transaction });
    for (;;) {
      const receipt = await node.rpc("eth_getTransactionReceipt", sent);
      if (receipt) return receipt;
    }
  };
  const deploy = async (code) => {
    const { contractAddress, status } = await receiptOf({ data: code, gas: "0x3b9aca0" });
    if (status !== "0x1") throw new Error("a contract is not deployed");
    return contractAddress;
  };
  const addresses = [];
  for (const { code } of parts) addresses.push(await deploy(code));
  const to = await deploy(contract.code + addresses.map((own) => word(own)).join(""));
  const data = (name, ...args) => `0x${contract.selectors[name]}${args.join("")}`;
  const gas = `0x${GAS.toString(16)}`;
  const call = async (input, limit = gas, whom = to) =>
    (await node.rpc("eth_call", { from, to: whom, data: input, gas: limit }, "latest")).slice(2);

  /** Sends a transaction that has to succeed. */
  async function send(about, input) {
    const size = input.length / 2 - 1;
    const receipt = await receiptOf({ to, data: input, gas });
    const used = Number(receipt.gasUsed);
    if (receipt.status !== "0x1" || size > BYTES || used > GAS) throw new Error(`${about}: refused, or beyond a limit`);
    all += used;
    console.log(`${about}: ${used} gas, ${size} bytes`);
  }
  /** What has to be refused, for a reason. */
  async function refuse(about, input, reason, whom = to) {
    let answer;
    try {
      answer = await call(input, gas, whom);
    } catch (error) {
      if (!/revert/.test(error.message) || !reason.test(error.message)) throw new Error(`${about}: ${error.message}`);
      refused++;
      return;
    }
    throw new Error(`${about}: accepted, ${answer.slice(0, 64)}`);
  }
  const facts = async (id) => number(await call(data("facts", id)), 0);

  const beginning = (open, aggregate) => data("begin", word(64), word(96 + Math.ceil(open.length / 64) * 32), bytes(open), bytes(aggregate));
  // The whole input says where the conversations end. What is sent ends there.
  const whole = await call(beginning(proof.open, proof.aggregate), "0x3b9aca00");
  const ends = { open: number(whole, 1), aggregate: number(whole, 2) };
  const input = beginning(proof.open.slice(0, 2 * ends.open), proof.aggregate.slice(0, 2 * ends.aggregate));
  const begun = await call(input);
  const id = begun.slice(0, 64);
  const beginnings = { open: pointed(begun, 3), aggregate: pointed(begun, 4) };
  const states = { ...beginnings };
  const step = (name, own, state, count, part) =>
    data(name, own, word(128), word(count), word(160 + Math.ceil(state.length / 64) * 32), bytes(state), bytes(part));
  await refuse("a stage before the beginning", step("open", id, states.open, 0, ""), /another state/);
  await send("both conversations", input);
  await refuse("the beginning again", input, /begun already/);

  const stages = {
    open: sections(proof.open, ends.open, [4, 4, ...Array(await rootsOf()).fill(16)]),
    aggregate: sections(proof.aggregate, ends.aggregate, [4, 4, 4, 4, 16, 16, 16]),
  };

  /** How many oracles follow: as many sections as are left behind both rows. */
  async function rootsOf() {
    for (let count = 0; ; count++) {
      try {
        sections(proof.open, ends.open, [4, 4, ...Array(count).fill(16)]);
        return count;
      } catch (error) {
        if (count > 16) throw error;
      }
    }
  }

  for (const name of ["open", "aggregate"]) {
    const cut = stages[name];
    for (let stage = 0; stage + 1 < cut.length; ) {
      const state = states[name];
      // As many stages as a transaction has bytes for.
      let count = 1;
      while (stage + count + 1 < cut.length && cut[stage + count + 1] - cut[stage] < BYTES - 40000) count++;
      const part = proof[name].slice(2 * cut[stage], 2 * cut[stage + count]);
      const own = step(name, id, state, count, part);
      const about = `${name}, stages ${stage} to ${stage + count - 1}`;
      const after = await call(own);
      for (let k = 0; k < 8; k++) {
        const at = 16 + 2 * Math.floor(((part.length / 2 - 8) * (k + 0.5)) / 8);
        const flipped = (parseInt(part.slice(at, at + 2), 16) ^ (1 << k)).toString(16).padStart(2, "0");
        await refuse(`${about}, byte ${at / 2} changed`, step(name, id, state, count, part.slice(0, at) + flipped + part.slice(at + 2)), /./);
        const place = Math.floor((state.length * (k + 0.5)) / 8);
        const digit = (parseInt(state[place], 16) ^ 1).toString(16);
        await refuse(`${about}, state changed`, step(name, id, state.slice(0, place) + digit + state.slice(place + 1), count, part), /another state/);
      }
      await refuse(`${about}, of another submission`, step(name, word(7), state, count, part), /another state/);
      await refuse(`${about}, with bytes behind it`, step(name, id, state, count, `${part}00`), /length/);
      await refuse(`${about}, one stage less`, step(name, id, state, count - 1, part), /length/);
      if (stage > 0) await refuse(`${about}, without those before`, step(name, id, beginnings[name], count, part), /another state/);
      if (stage + count + 1 === cut.length) {
        // The contract of the stages has no state of its own: asked with a message whose last coefficient is another, it says so.
        const at = name === "open" ? 0 : 1;
        const ask = (own) => `0x${parts[at].selectors.advance}` + word(96) + word(count) + word(128 + Math.ceil(own.length / 64) * 32) + bytes(own) + bytes(part);
        const other = state.slice(0, -1) + (parseInt(state.slice(-1), 16) ^ 1).toString(16);
        if (number(await call(ask(state), gas, addresses[at]), 0) !== 1) throw new Error(`${about}: not the last stage`);
        await refuse(`${about}, another last message`, ask(other), /last message/, addresses[at]);
      }
      if ((await facts(id)) !== 0) throw new Error("a fact before everything was verified");
      await send(about, own);
      await refuse(`${about}, again`, own, /another state/);
      states[name] = pointed(after, 0);
      stage += count;
    }
    await refuse(`${name}, after the last stage`, step(name, id, states[name], 0, ""), /another state/);
  }
  if ((await facts(id)) !== 1) throw new Error("no fact, or more than one, when everything was verified");
  if ((await facts(word(7))) !== 0) throw new Error("a fact of another submission");
} finally {
  node.stop();
}
console.log(`${all} gas in all, ${refused} transactions refused as they had to be; ${parts.map((own) => own.size).join(" and ")} bytes of code`);
