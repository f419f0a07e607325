// A whole proof in transactions, within the limits of a chain, and what a consumer makes of the fact: `node test/verify.mjs VECTORS`, with
// what `chain_vectors` prints. Every transaction is also tried as it must not be.
import { readFileSync } from "node:fs";
import { compile } from "../lib/compile.mjs";
import { bytes, number, pointed, pointedAll, word } from "../lib/encoding.mjs";
import { start } from "../lib/node.mjs";
import { NAMES, PARTS, finished, largest, left, pageAddress, piece, stagesOf, steps, storing } from "../lib/proof.mjs";
import { PARTS as CONTRACTS, selectors } from "../lib/selectors.mjs";

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
const plan = named(cut ? "cut plan" : "plan");
const packed = { ...named("packed"), plan: plan.id, header: plan.header, program: plan.program, gas: plan.gas, behind: plan.behind };
const { said, header } = packed;
if (said !== named("said").data) throw new Error("what is said is packed in another way");
const [rows, bits] = [parseInt(header.slice(128 + 8 * 7, 136 + 8 * 7), 16), parseInt(header.slice(128 + 8 * 19, 136 + 8 * 19), 16)];

const names = selectors();
const parts = CONTRACTS.map(([, path, name]) => compile(path, name));
const verifier = compile("contracts/Verifier.sol", "Verifier");
const bounty = compile("contracts/Bounty.sol", "Bounty");
const hash = compile("test/Hash.sol", "Hash");
for (const { size } of [...parts, verifier, bounty]) if (size > CODE) throw new Error(`${size} bytes of code, more than a chain takes`);

const node = await start();
let refused = 0;
let all = 0;
try {
  const [from, other] = await node.rpc("eth_accounts");
  const receiptOf = (transaction) => node.receiptOf({ from, ...transaction });
  const deploy = async (code, ...args) => {
    const { contractAddress, status } = await receiptOf({ data: code + args.map(word).join(""), gas: "0x1000000" });
    if (status !== "0x1") throw new Error("a contract is not deployed");
    return contractAddress;
  };
  const gas = `0x${GAS.toString(16)}`;
  const addresses = {};
  for (const [i, [name]] of CONTRACTS.entries()) addresses[name] = await deploy(parts[i].code);
  const to = await deploy(verifier.code, ...CONTRACTS.map(([name]) => addresses[name]));
  addresses.Verifier = to;
  const market = await deploy(bounty.code, to);
  const hashing = await deploy(hash.code);
  const call = async (input, whom = to) => (await node.rpc("eth_call", { from, to: whom, data: `0x${input}`, gas }, "latest")).slice(2);
  const ask = (name, input) => call(input, addresses[name]);

  /** Sends a transaction that has to succeed. */
  async function send(about, input) {
    const size = input.length / 2;
    const receipt = await receiptOf({ to, data: `0x${input}`, gas });
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
  const digest = (hex) => call(hash.selectors.digest + word(32) + bytes(hex), hashing);

  // The program, page by page. What is stored is found again, and nothing else is.
  const store = (page) => storing(names.PAGES, page);
  const program = packed.program.flat();
  let stored = 0;
  for (const page of program) {
    const { status, gasUsed } = await receiptOf({ to: addresses.PAGES, data: `0x${store(page)}`, gas });
    const code = await node.rpc("eth_getCode", pageAddress(addresses.PAGES, page), "latest");
    if (status !== "0x1" || code !== `0x00${page}` || Number(gasUsed) > GAS) throw new Error("a page is not stored");
    const again = await receiptOf({ to: addresses.PAGES, data: `0x${store(page)}`, gas });
    if (again.status !== "0x1" || again.logs.length !== 0) throw new Error("a page is stored twice");
    stored += Number(gasUsed);
  }
  console.log(`program: ${program.length} pages, ${stored} gas`);
  await refuse("a page that is too long", store("00".repeat(CODE)), /length/, addresses.PAGES);

  const own = await steps(packed, names, addresses.PAGES, ask);
  const { id, encode } = own;
  const lists = [said, packed.opening.conversation];
  const begin = (changes = {}) => {
    const { head = header, digest: first = packed.behind[0], both = lists, more = "" } = changes;
    return encode.begin(head, first, both, more);
  };
  const fact = async (...key) => number(await call(encode.verified(...key)), 1);
  const standing = () => call(encode.standing(from, id));

  const [prompts, outputs] = [0, 8].map((at) => parseInt(said.slice(at, at + 8), 16));
  const [context, ids] = [said.slice(24, 88), said.slice(88, 88 + 8 * (prompts + outputs))];
  if (/^0+$/.test(context)) throw new Error("the proof has no context that names whom the bounty pays");
  const key = [packed.plan, await digest(ids.slice(0, 8 * prompts)), await digest(ids.slice(8 * prompts)), context];

  // An offer for the fact that is to come.
  const offer = bounty.selectors.offer + key.slice(0, 3).join("") + word(950) + word(1000);
  await receiptOf({ to: market, data: `0x${offer}`, value: "0x64", gas });
  const payee = `0x${context.slice(24)}`;
  const claim = bounty.selectors.claim + word(0) + word(payee);
  await refuse("the bounty before the fact", claim, /no fact/, market);

  /** What is said or of which plan has to be refused at once, or makes another submission, whose program finds it. */
  let later = 0;
  async function refuseSaid(about, changes) {
    const { head = header, both = lists } = changes;
    let found;
    try {
      found = await call(begin(changes));
    } catch {
      await refuse(about, begin(changes), /./);
      return;
    }
    if (found.slice(0, 64) === id) throw new Error(`${about}: the same submission`);
    const answer = await call(encode.converse(head, packed.behind[0], both));
    let [state] = pointedAll(answer, 6, 2);
    for (const [i, { data }] of own.parts[0].entries()) {
      const input = stagesOf(names.PROGRAM, state, 1, data);
      if (i + 1 < own.parts[0].length) state = pointed(await call(input, addresses.PROGRAM), 1);
      else await refuse(about, input, /band sumcheck|linear claims|embedding|denominators/, addresses.PROGRAM);
    }
    later++;
  }

  // What is said.
  for (const [i, name] of ["what is said", "conversation of the opening"].entries()) {
    const other = (hex) => lists.map((list, k) => (k === i ? hex : list));
    for (const at of places(lists[i], 24)) await refuseSaid(`${name}, byte ${at} changed`, { both: other(flipped(lists[i], at, at % 8)) });
    for (const back of [4, 40, 200, 400]) await refuseSaid(`${name}, ${back} bytes before its end changed`, { both: other(flipped(lists[i], lists[i].length / 2 - back)) });
    await refuse(`bytes behind ${name}`, begin({ both: other(`${lists[i]}00`) }), /length/);
    await refuse(`${name}, a word less`, begin({ both: other(lists[i].slice(0, -64)) }), /./);
  }
  await refuse("another context", begin({ both: [flipped(said, 43), lists[1]] }), /./);
  await refuse("a context taken away", begin({ both: [said.slice(0, 24) + word(0) + ids + said.slice(88 + ids.length), lists[1]] }), /./);
  for (let at = 44; at < 44 + 4 * (prompts + outputs); at += 4) {
    await refuse(`id ${(at - 44) / 4} changed`, begin({ both: [flipped(said, at + 3), lists[1]] }), /./);
  }
  // Of roots and numbers that say what is proved and how; others make a plan of another model.
  for (const at of [0, 38, 67, 71, 75, 79, 83, 87, 91, 95, 99, 119, 123, 127, 131, 135, 139]) {
    await refuseSaid(`header, byte ${at} changed`, { head: flipped(header, at) });
  }
  // More leading rows, if there are as many: their number is absorbed.
  if (rows >= 8) await refuseSaid("more leading rows", { head: flipped(header, 111, 2) });
  for (const changes of [{ head: flipped(header, 143) }, { digest: word(7) }]) {
    if ((await call(begin(changes))).slice(0, 64) === id) throw new Error("another plan is the same submission");
  }
  await refuse("bytes behind the header", begin({ head: `${header}00` }), /length/);
  await refuse("a clipped value", begin({ both: [flipped(said, 11), lists[1]] }), /clipped values/);

  /** A stage, or where it has rows it and all up to the paths of both trees, which say whether the rows are the right ones. */
  const together = (part, at) => {
    const end = part === 1 && at < packed.opening.trees ? packed.opening.trees : at + 1;
    const stages = own.parts[part].slice(at, end);
    return { state: stages[0].state, data: stages.map(({ data }) => data).join(""), count: stages.length };
  };
  // The points that are opened, where bands have one tile, two or four: coordinates of what the program is given.
  const num = (at) => parseInt(header.slice(128 + 8 * at, 136 + 8 * at), 16);
  const logs = header.slice(128 + 8 * 21).match(/../g).map((own) => parseInt(own, 16));
  const [variables, trees] = [logs.slice(0, 16).filter((own) => own !== 255), logs.slice(16)];
  for (const log of [0, 1]) {
    const banded = `${header.slice(0, 128 + 8 * 17)}${word(log).slice(56)}${header.slice(136 + 8 * 17)}`;
    const answer = await call(names.SAYING.say + word(64) + word(96 + Math.ceil(banded.length / 64) * 32) + bytes(banded) + bytes(said), addresses.SAYING);
    const [told, heard] = [0, 1].map((i) => answer.slice(2 * number(answer, i)));
    const given = pointed(told, 5).match(/.{32}/g);
    const point = (at) => {
      const list = heard.slice(2 * number(heard, at));
      return Array.from({ length: number(list, 0) }, (_, i) => list.slice(64 * (i + 1) + 32, 64 * (i + 2)));
    };
    const points = 10 + trees.reduce((sum, own) => sum + own + 1, 0);
    const behind = points + num(5) - 3 - Math.ceil(Math.log2(num(8)));
    const products = points + num(5) + 1 + Math.max(...variables);
    const expected = [given.slice(behind - 6 - log, behind - 6), given.slice(products - 6, products), given.slice(behind - 6, behind)].flat();
    if (point(26).join() !== expected.join() || point(27).join() !== given.slice(-12).join()) throw new Error(`points of bands of 2^${log} tiles`);
  }

  // Stages before the beginning, and what is no transaction.
  const first = [0, 1].map((part) => together(part, 0));
  const stage = (part, { state, data, count = 1 }, whom = id) => encode.advance(whom, piece(part, count, state, data));
  for (const part of [0, 1]) await refuse(`${NAMES[part]} before the beginning`, stage(part, first[part]), /not begun/);
  await refuse("a beginning with a stage that is changed", begin({ more: piece(1, first[1].count, "", flipped(first[1].data, 5000)) }), /./);
  await refuse("a beginning with a stage of another part", begin({ more: piece(0, 1, "", own.parts[1][0].data) }), /./);
  await refuse("a beginning with a part that there is not", begin({ more: piece(2, 1, "", own.parts[1][0].data) }), /part/);
  await refuse("a beginning with bytes behind it", begin({ more: "01" }), /./);
  await refuse("a beginning with the state of another one", begin({ more: piece(1, first[1].count, flipped(first[1].state, 50), first[1].data) }), /another state/);
  const spoiled = begin({ more: piece(1, first[1].count, "", first[1].data) + piece(0, 1, "", flipped(first[0].data, 3)) });
  if ((await receiptOf({ to, data: `0x${spoiled}`, gas })).status !== "0x0") throw new Error("a beginning with a stage that is changed: accepted");
  if (number(await standing(), 0) !== 0) throw new Error("a beginning that was refused left something");

  // What the program has to find, asked for of the contract that has no state of its own: the denominators of the tables, the operand, the value, and of either band
  // sumcheck the value at its end and the last claim. And the program with another statement.
  const { state: end, data: segment } = own.parts[0].at(-1);
  const reasons = [/denominators/, /embedding/, /linear claims/, /band sumcheck/, /band sumcheck/, /band sumcheck/, /band sumcheck/];
  for (const [i, reason] of reasons.entries()) {
    await refuse(`what the program finds, ${i}`, stagesOf(names.PROGRAM, flipped(end, 32 + 16 * i + 15), 1, segment), reason, addresses.PROGRAM);
  }
  if (own.parts[0].length === 1) {
    // Behind the digest, seven elements and the numbers of words of five kinds.
    const ids_ = 32 + 7 * 16 + 2 * 5;
    for (let row = 0; row < prompts; row++) {
      await refuse(`token ${row} of the statement`, stagesOf(names.PROGRAM, flipped(end, ids_ + 4 * row + 3), 1, segment), /embedding/, addresses.PROGRAM);
    }
  }

  /** Every stage of a part that is next, as it must not be. */
  async function spoil(part, at) {
    const stages = own.parts[part];
    const { state, data, count } = together(part, at);
    const about = `${NAMES[part]}, stage ${at + 1}`;
    const reason = part === 0 ? /another segment|length|machine|./ : /./;
    for (const place of places(data, 12)) await refuse(`${about}, byte ${place} changed`, stage(part, { state, data: flipped(data, place, place % 8), count }), reason);
    for (const place of places(state, 12)) await refuse(`${about}, byte ${place} of its state changed`, stage(part, { state: flipped(state, place), data, count }), /another state/);
    await refuse(`${about}, without a state`, stage(part, { state: "", data, count }), /no state/);
    await refuse(`${about}, with bytes behind it`, stage(part, { state, data: `${data}00`, count }), /length|machine|revert/);
    await refuse(`${about}, a word less`, stage(part, { state, data: data.slice(0, -64), count }), /./);
    await refuse(`${about}, of another submission`, stage(part, { state, data, count }, word(7)), /not begun/);
    await refuse(`${about}, none of it`, stage(part, { state, data, count: 0 }), /part/);
    await refuse(`${about}, as one more`, stage(part, { state, data, count: count + 1 }), /./);
    await refuse(`${about}, of another part`, stage(1 - part, { state, data, count }), /another state/);
    for (const [k, another] of stages.entries()) {
      if (k !== at && count === 1) await refuse(`${about}, another one`, stage(part, { state, data: another.data }), /./);
      if (k !== at) await refuse(`${about}, another one with its state`, stage(part, another), /another state/);
    }
    // Twice in one transaction: the second time with the state that is used up.
    const twice = encode.advance(id, piece(part, count, state, data) + piece(part, count, state, data));
    if (twice.length / 2 < BYTES) await refuse(`${about}, twice`, twice, /another state|another segment|stage/);
    if (part === 0) {
      const where = own.parts[0][at].data;
      await refuse(`${about}, others behind it`, stage(0, { state, data: word(7) + where.slice(64) }), /another segment/);
      await refuse(`${about}, no pages`, stage(0, { state, data: `${where.slice(0, 64)}00` }), /pages/);
      const away = where.slice(0, 66) + to.slice(2).toLowerCase() + where.slice(106);
      await refuse(`${about}, another contract as a page`, stage(0, { state, data: away }), /./);
      const last = at + 1 === stages.length;
      await refuse(`${about}, ${last ? "not the last one" : "the last one"}`, stage(0, { state, data: word(last ? 1 : 0) + where.slice(64) }), /another segment/);
    } else if (at + 1 === stages.length) {
      // The contract of the stages has no state of its own: asked with another last message, it says so.
      const messages = data.slice(0, -2) + (parseInt(data.slice(-2), 16) ^ 1).toString(16).padStart(2, "0");
      await refuse(`${about}, another last message`, stagesOf(names[PARTS[part]], state, 1, messages), /last message/, addresses[PARTS[part]]);
    }
  }

  // The whole, in as few transactions as there can be.
  let count = 0;
  for (let rest = left(own, await standing()); !finished(rest); count++) {
    const transaction = await largest(rest, { bytes: BYTES - 512, gas: GAS }, (data) => call(data).then(() => 0n));
    const { data, about } = transaction;
    if (count > 0) {
      for (const part of [0, 1]) if (rest.from[part] < own.parts[part].length) await spoil(part, rest.from[part]);
    }
    if ((await fact(...key)) !== 0) throw new Error("a fact before everything was verified");
    await send(about, data);
    await refuse(`${about}, again`, data, /begun already|another state/);
    rest = left(own, await standing());
    if (rest.from.join() !== transaction.after.from.join()) throw new Error("the chain is not where it should be");
  }
  for (const part of [0, 1]) {
    const last = own.parts[part].at(-1);
    await refuse(`${NAMES[part]}, behind the last stage`, stage(part, last), /another state/);
  }
  console.log(`${count} transactions`);

  const answer = await call(encode.verified(...key));
  if (number(answer, 0) !== bits || number(answer, 1) === 0) throw new Error("no fact when everything was verified");
  for (let i = 0; i < 4; i++) {
    const wrong = key.map((own, k) => (k === i ? word(7) : own));
    if ((await fact(...wrong)) !== 0) throw new Error("a fact of another model, prompt, output or context");
  }
  await refuse("the whole again", begin(), /begun already/);

  // The consumer.
  const balance = async () => BigInt(await node.rpc("eth_getBalance", payee, "latest"));
  await refuse("the bounty for somebody else", bounty.selectors.claim + word(0) + word(other), /no fact/, market);
  const before = await balance();
  const paid = await receiptOf({ to: market, data: `0x${claim}`, gas });
  if (paid.status !== "0x1" || (await balance()) !== before + 100n) throw new Error("the bounty is not paid");
  await refuse("the bounty again", claim, /nothing left/, market);
  console.log(`a fact with ${bits / 10} bits; ${all} gas in all, ${refused} transactions refused as they had to be, ${later} of them by the program`);
  console.log(`bytes of code: Verifier ${verifier.size}, ${parts.map(({ size }, i) => `${CONTRACTS[i][2]} ${size}`).join(", ")}, Bounty ${bounty.size}`);
} finally {
  node.stop();
}
