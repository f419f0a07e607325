// The contracts against the verifier in Rust: `node test/run.mjs VECTORS`, where VECTORS is what
// `cargo run --release -p tessera-plan --example chain_vectors -- KEY PROOF` prints: one case a line.
import { readFileSync } from "node:fs";
import { compile } from "../lib/compile.mjs";
import { start } from "../lib/node.mjs";
import { bytes, word } from "../lib/encoding.mjs";
import { pageAddress } from "../lib/proof.mjs";

const [file] = process.argv.slice(2);
if (!file) {
  console.error("usage: node test/run.mjs VECTORS");
  process.exit(2);
}
const lines = readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
// Others are parts of the proof, for other tests.
const cases = lines.filter((line) => "expected" in line);
const harnesses = [
  compile("test/Harness.sol", "Harness"),
  compile("test/Whole.sol", "Whole"),
  compile("test/Machines.sol", "Machines"),
];
const node = await start();

/** The contract that has a function, and calldata of it: the place of its bytes, their number, the bytes and zeros up to whole words. */
function call(name, hex) {
  const harness = harnesses.find((own) => name in own.selectors);
  if (!harness) throw new Error(`no function ${name}`);
  const selector = harness.selectors[name];
  const word = (number) => number.toString(16).padStart(64, "0");
  const data = `0x${selector}${word(32)}${word(hex.length / 2)}${hex.padEnd(Math.ceil(hex.length / 64) * 64, "0")}`;
  return { to: harness.address, data, gas: "0x3b9aca00" };
}

/** Bytes and gas of an answer. */
function decoded(answer) {
  const words = answer.slice(2);
  const gas = Number(BigInt(`0x${words.slice(64, 128)}`));
  const length = Number(BigInt(`0x${words.slice(128, 192)}`));
  return { bytes: words.slice(192, 192 + 2 * length), gas };
}

const tally = new Map();
let failures = 0;
try {
  const [from] = await node.rpc("eth_accounts");
  for (const harness of harnesses) {
    const receipt = await node.receiptOf({ from, data: harness.code, gas: "0x3b9aca0" });
    if (receipt.status !== "0x1") throw new Error("a harness is not deployed");
    harness.address = receipt.contractAddress;
  }
  const receiptOf = (transaction) => node.receiptOf({ from, gas: "0x3b9aca0", ...transaction });
  const pages = compile("contracts/Pages.sol", "Pages");
  const { contractAddress: library } = await receiptOf({ data: pages.code });
  /** Where pages are, stored first. */
  async function stored(all) {
    const places = [];
    for (const page of all) {
      const { status } = await receiptOf({ to: library, data: `0x${pages.selectors.store}${word(32)}${bytes(page)}` });
      if (status !== "0x1") throw new Error("a page is not stored");
      places.push(pageAddress(library, page).slice(2).toLowerCase());
    }
    return places.join("");
  }
  // Inputs that are printed as a change of the one before that is printed as a whole.
  const whole = new Map();
  for (const { name, about, input: all, at, bytes: part, expected, why: reason, pages: own } of cases) {
    if (all && expected) whole.set(name, all);
    const before = whole.get(name);
    const input = (all ?? before.slice(0, 2 * at) + part + before.slice(2 * at + part.length)) + (own ? await stored(own) : "");
    let got = null;
    let why = "";
    try {
      got = decoded(await node.rpc("eth_call", { from, ...call(name, input) }, "latest"));
    } catch (error) {
      if (!/revert/.test(error.message)) throw error;
      why = error.message;
    }
    const row = tally.get(name) ?? { accepted: 0, refused: 0, gas: [] };
    tally.set(name, row);
    if ((got?.bytes ?? null) !== expected) {
      failures++;
      console.error(`${name}, ${about}: the contract says ${got?.bytes ?? `no (${why})`}, the verifier ${expected ?? "no"}`);
    }
    if (!got && reason && !reason.split("|").some((own) => why.includes(own))) {
      failures++;
      console.error(`${name}, ${about}: the contract refuses for another reason, "${why}" and not "${reason}"`);
    }
    if (got) row.accepted++;
    else row.refused++;
    if (got && expected) row.gas.push([about, got.gas]);
  }
} finally {
  node.stop();
}
for (const [name, { accepted, refused, gas }] of tally) {
  console.log(`${name}: ${accepted} answered, ${refused} refused`);
  for (const [about, used] of gas.filter(([about]) => about.includes("gas")).slice(0, 20)) console.log(`  ${about}: ${used}`);
}
const refusals = [...tally.values()].reduce((sum, row) => sum + row.refused, 0);
console.log(`${cases.length} cases, ${refusals} of them refused by both, ${failures} differences; ${harnesses.map((own) => own.size).join(" and ")} bytes of code`);
if (cases.length < 100 || refusals === 0) throw new Error("hardly anything was compared");
process.exit(failures ? 1 : 0);
