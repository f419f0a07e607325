// Strangers against a submission: `node test/strangers.mjs CALLS`, with what `tessera chain pack` writes of a proof whose context names an
// address. A stranger acts before, between and after the transactions of the owner of the run: he begins the same run, sends each transaction
// first, sends right and forged stages, and abandons. The owner sends what he would send anyway: every transaction has to succeed, with the
// gas that it takes when he is alone, up to 1 %, and has to end in the fact. A copied proof pays whom its context names.
import { readFileSync } from "node:fs";
import { compile } from "../lib/compile.mjs";
import { number, word } from "../lib/encoding.mjs";
import { start } from "../lib/node.mjs";
import { BYTES, GAS, PARTS, finished, largest, left, piece, steps, storing } from "../lib/proof.mjs";
import { PARTS as CONTRACTS, selectors } from "../lib/selectors.mjs";

const [file] = process.argv.slice(2);
if (!file) {
  console.error("usage: node test/strangers.mjs CALLS");
  process.exit(2);
}
const packed = JSON.parse(readFileSync(file, "utf8"));
const key = [packed.plan, packed.prompt, packed.output, packed.context];
const names = selectors();
const bounty = compile("contracts/Bounty.sol", "Bounty");
const node = await start();
const must = (condition, about) => {
  if (!condition) throw new Error(about);
};
/** With a byte changed in its middle. */
const forged = (hex) => {
  const at = 2 * Math.floor(hex.length / 4);
  return hex.slice(0, at) + (parseInt(hex.slice(at, at + 2), 16) ^ 1).toString(16).padStart(2, "0") + hex.slice(at + 2);
};

try {
  const [owner, stranger] = await node.rpc("eth_accounts");
  const send = async (from, to, input, value = "0x0") => {
    const receipt = await node.receiptOf({ from, to, value, data: `0x${input}`, gas: `0x${GAS.toString(16)}` });
    return { done: receipt.status === "0x1", gas: Number(receipt.gasUsed), address: receipt.contractAddress };
  };
  const call = async (from, to, input) => (await node.rpc("eth_call", { from, to, data: `0x${input}`, gas: `0x${GAS.toString(16)}` }, "latest")).slice(2);
  const deploy = async (code, ...args) => (await send(owner, undefined, code.slice(2) + args.map(word).join(""))).address;

  const addresses = {};
  for (const [name, path, contract] of CONTRACTS) addresses[name] = await deploy(compile(path, contract).code);
  const verifier = await deploy(compile("contracts/Verifier.sol", "Verifier").code, ...CONTRACTS.map(([name]) => addresses[name]));
  addresses.Verifier = verifier;
  const market = await deploy(bounty.code, verifier);
  for (const page of packed.program.flat()) must((await send(owner, addresses.PAGES, storing(names.PAGES, page))).done, "a page is not stored");
  must((await send(owner, market, bounty.selectors.offer + key.slice(0, 3).join("") + word(1) + word(1_000_000), "0x64")).done, "no offer");

  const own = await steps(packed, names, addresses.PAGES, (name, input) => call(owner, addresses[name], input));
  const { id, encode, parts } = own;
  const fact = async () => number(await call(owner, verifier, encode.verified(...key)), 1) !== 0;
  let clean = await node.rpc("evm_snapshot");
  const reset = async () => {
    await node.rpc("evm_revert", clean);
    clean = await node.rpc("evm_snapshot");
    must(!(await fact()), "a fact of nothing");
  };

  // What the owner sends when he is alone, and what it takes.
  const alone = [];
  for (let rest = left(own, word(0).repeat(PARTS.length)); !finished(rest); ) {
    const { data, after } = await largest(rest, { bytes: BYTES, gas: GAS }, (data) => call(owner, verifier, data).then(() => 0n));
    const { done, gas } = await send(owner, verifier, data);
    must(done, "a transaction of the owner is refused when he is alone");
    alone.push({ data, gas, from: rest.from, begun: rest.begun });
    rest = after;
  }
  must(await fact(), "no fact when the owner is alone");
  console.log(`alone: ${alone.length} transactions, ${alone.reduce((sum, { gas }) => sum + gas, 0)} gas`);

  /** The next stage of each part before a transaction, one by one, as it is or forged. */
  const stages = ({ from, begun }, change = (data) => data) =>
    parts.flatMap((all, part) => (begun && from[part] < all.length ? [encode.advance(id, piece(part, 1, all[from[part]].state, change(all[from[part]].data)))] : []));
  const abandon = () => [encode.abandon(id)];
  const attacks = {
    "begins the same run first": { before: (i) => (i === 0 ? [alone[0].data] : []) },
    "sends every transaction first": { before: (i) => [alone[i].data] },
    "sends every transaction again": { after: (i) => [alone[i].data] },
    "is one transaction ahead": { before: (i) => (i === 0 ? [alone[0].data] : []), after: (i) => (i + 1 < alone.length ? [alone[i + 1].data] : []) },
    "sends right stages": { before: (i) => stages(alone[i]) },
    "sends forged stages": { before: (i) => stages(alone[i], forged) },
    "begins, then sends forged stages": { before: (i) => [...(i === 0 ? [alone[0].data] : []), ...stages(alone[i], forged)] },
    "abandons before and after": { before: abandon, after: abandon },
    "begins and abandons": { before: (i) => [...(i === 0 ? [alone[0].data] : []), ...abandon()] },
  };
  const failures = [];
  for (const [about, { before = () => [], after = () => [] }] of Object.entries(attacks)) {
    await reset();
    let taken = 0;
    const act = async (all) => {
      for (const data of all) taken += Number((await send(stranger, verifier, data)).done);
    };
    let worst = 0;
    const told = [];
    for (const [i, { data, gas }] of alone.entries()) {
      await act(before(i));
      const sent = await send(owner, verifier, data);
      if (!sent.done) told.push(`transaction ${i + 1} of the owner is refused`);
      worst = Math.max(worst, Math.abs(sent.gas / gas - 1));
      await act(after(i));
    }
    if (!(await fact())) told.push("there is no fact");
    if (worst > 0.01) told.push(`gas differs by ${(100 * worst).toFixed(2)} %`);
    console.log(`a stranger ${about}: ${taken} of his transactions done; ${told.join("; ") || `nothing changes, gas by ${(100 * worst).toFixed(3)} %`}`);
    failures.push(...told);
  }

  // Rows are taken in before the path that proves them. Who sends wrong ones stops his own run, abandons it and begins again.
  await reset();
  must((await send(owner, verifier, own.begin(""))).done, "a beginning is refused");
  const [{ state, data }] = parts[1];
  must((await send(owner, verifier, encode.advance(id, piece(1, 1, state, forged(data))))).done, "forged rows are seen before their path");
  must(!(await send(owner, verifier, encode.advance(id, piece(1, 1, state, data)))).done, "rows are taken in twice");
  must((await send(owner, verifier, encode.abandon(id))).done, "a run cannot be abandoned");
  must(!(await send(owner, verifier, encode.abandon(id))).done, "a run is abandoned twice");
  for (const { data } of alone) must((await send(owner, verifier, data)).done, "a run that was abandoned cannot be begun again");
  must(await fact(), "no fact of a run that was abandoned and begun again");
  console.log("wrong rows of one's own: abandoned, begun again, done");

  // A stranger submits a copy of the proof and asks for the bounty.
  await reset();
  for (const { data } of alone) must((await send(stranger, verifier, data)).done, "a copy is refused");
  must(await fact(), "no fact of a copy");
  const claim = (to) => bounty.selectors.claim + word(0) + word(to);
  const prover = `0x${packed.context.slice(24)}`;
  const balance = async () => BigInt(await node.rpc("eth_getBalance", prover, "latest"));
  if ((await send(stranger, market, claim(stranger))).done) failures.push("the bounty pays a stranger for a copied proof");
  const had = await balance();
  must((await send(stranger, market, claim(prover))).done && (await balance()) === had + 100n, "the bounty does not pay whom the context names");
  console.log("a copied proof: the bounty pays whom its context names");
  if (failures.length > 0) throw new Error(`strangers changed what they must not: ${failures.length} failures`);
} finally {
  node.stop();
}
