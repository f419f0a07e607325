#!/usr/bin/env node
// Sends a proof to the contracts of a chain, transaction by transaction, and ends with the fact (docs/chain.md).
//
//   tessera chain pack story.proof --key MODEL/model.key --out story.calls
//   node cli/drivers/submit.mjs story.calls --rpc URL --verifier ADDRESS [--send]
//
// The program of the plan is stored first, if it is not, page by page: once for all proofs of the plan, by anybody. What
// `tessera chain register` writes has the program alone.
//
// Without --send it says what would be sent, with gas and price, and sends nothing. The key of the account that pays is in the environment,
// in TESSERA_CHAIN_KEY, or in a keystore (--keystore FILE, with its password in TESSERA_CHAIN_PASSWORD). It is never printed. Nothing is
// kept in files: killed anywhere, the same command goes on where the chain is.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";

const chain = new URL("../../chain/", import.meta.url);
const load = async () => {
  try {
    return {
      ...createRequire(new URL("package.json", chain))("ethers"),
      ...(await import(new URL("lib/selectors.mjs", chain))),
      ...(await import(new URL("lib/proof.mjs", chain))),
      ...(await import(new URL("lib/encoding.mjs", chain))),
    };
  } catch (error) {
    if (!/MODULE_NOT_FOUND/.test(error.code)) throw error;
    console.error("its libraries are missing: npm ci --ignore-scripts in the folder chain");
    return process.exit(2);
  }
};
const { JsonRpcProvider, Wallet, formatEther, selectors, steps, left, next, finished, pageAddress, bytes, word, BYTES, GAS } = await load();

const usage = "usage: submit.mjs CALLS --rpc URL --verifier ADDRESS [--send] [--keystore FILE]";
const fail = (message) => {
  console.error(message);
  process.exit(2);
};

function given() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { rpc: { type: "string" }, verifier: { type: "string" }, keystore: { type: "string" }, send: { type: "boolean" } },
    });
    if (positionals.length !== 1 || !values.rpc || !values.verifier) fail(usage);
    return { file: positionals[0], ...values };
  } catch (error) {
    return fail(`${error.message}\n${usage}`);
  }
}

/** The account that pays. What goes wrong with its key is said without it. */
async function account(keystore, provider) {
  try {
    if (keystore) {
      const password = process.env.TESSERA_CHAIN_PASSWORD;
      if (password === undefined) fail("TESSERA_CHAIN_PASSWORD has to have the password of the keystore");
      return (await Wallet.fromEncryptedJson(readFileSync(keystore, "utf8"), password)).connect(provider);
    }
    const key = process.env.TESSERA_CHAIN_KEY;
    if (!key) fail("TESSERA_CHAIN_KEY has to have a private key, or --keystore a file; without --send none is needed");
    return new Wallet(key.trim(), provider);
  } catch {
    return fail(keystore ? "the keystore cannot be opened with this password" : "TESSERA_CHAIN_KEY is no private key");
  }
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const shown = (error) => error.shortMessage ?? error.message;

async function run() {
  const { file, rpc, verifier, keystore, send } = given();
  const packed = JSON.parse(readFileSync(file, "utf8"));
  const provider = new JsonRpcProvider(rpc, undefined, { staticNetwork: true, batchMaxCount: 1, cacheTimeout: -1 });
  const names = selectors();
  const call = async (to, data) => (await provider.call({ to, data: `0x${data}` })).slice(2);
  const addresses = { Verifier: verifier };
  for (const part of ["PAGES", "PROGRAM", "OPENING", "STARK"]) {
    addresses[part] = `0x${(await call(verifier, names.Verifier[part])).slice(24)}`;
  }
  const price = (await provider.getFeeData()).maxFeePerGas ?? 0n;
  const sender = send ? new Sender(await account(keystore, provider), provider, price) : null;

  const missing = await missingPages(packed.program.flat(), addresses.PAGES, provider);
  if (missing.length > 0) await store(missing, addresses.PAGES, names.PAGES.store, sender, price);
  if (!packed.said) return console.log(missing.length === 0 || send ? `the program of plan ${packed.plan} is stored` : "nothing was sent (--send sends)");
  const ask = (part, data) => call(addresses[part], data);
  const own = await steps(packed, names, addresses.PAGES, ask, missing.length === 0 || Boolean(send));
  const fact = async () => {
    const answer = await call(verifier, own.encode.verified(packed.plan, packed.prompt, packed.output));
    const [bits, block] = [0, 1].map((i) => Number(BigInt(`0x${answer.slice(64 * i, 64 * i + 64)}`)));
    return block === 0 ? null : { bits: bits / 10, block };
  };
  const rest = async () => left(own, await call(verifier, own.encode.standing(own.id)));
  const shownFact = ({ bits, block }) => console.log(`verified: ${bits} bits, in block ${block}`);
  if (!send) {
    const found = await fact();
    return found ? shownFact(found) : plannedOf(await rest(), own, price, provider, verifier, missing.length === 0);
  }
  for (let found = await fact(); ; found = await fact()) {
    if (found) {
      console.log(`spent now: ${sender.spent} gas`);
      return shownFact(found);
    }
    await sender.send(verifier, async (estimate) => largest(await rest(), estimate));
  }
}

/** Pages of a program that are not stored. */
async function missingPages(all, pages, provider) {
  const missing = [];
  for (const page of all) if ((await provider.getCode(pageAddress(pages, page))) === "0x") missing.push(page);
  return missing;
}

/** Stores pages, or says what that takes. */
async function store(missing, pages, selector, sender, price) {
  const data = (page) => selector + word(32) + bytes(page);
  if (!sender) {
    const size = missing.reduce((sum, page) => sum + page.length / 2, 0);
    // 200 gas a byte of code, and calldata at 40 gas a byte at most.
    const gas = 240n * BigInt(size) + 100_000n * BigInt(missing.length);
    console.log(`the program of the plan is to be stored first, once: ${missing.length} pages, ${size} bytes, about ${gas} gas, ${formatEther(gas * price)} ether`);
    return;
  }
  for (let left = missing; left.length > 0; left = await missingPages(left, pages, sender.provider)) {
    const [page] = left;
    await sender.send(pages, async (estimate) => ({ data: data(page), about: "a page of the program", gas: await estimate(data(page)) }));
  }
}

/** Sends transactions of an account one by one. */
class Sender {
  constructor(wallet, provider, price) {
    Object.assign(this, { wallet, provider, price, spent: 0n, refused: 0 });
  }

  /** What `choose` chooses, given how gas is estimated: calldata, what it does and its gas, or nothing. */
  async send(to, choose) {
    const { wallet, provider } = this;
    // What was sent before a kill is waited for: the same again would be refused, and paid for.
    while ((await provider.getTransactionCount(wallet.address, "pending")) > (await provider.getTransactionCount(wallet.address, "latest"))) await wait(200);
    try {
      const chosen = await choose((data) => provider.estimateGas({ from: wallet.address, to, data: `0x${data}` }));
      if (!chosen) return;
      const { data, about, gas } = chosen;
      console.log(`${about}: about ${gas} gas, ${data.length / 2} bytes, at most ${formatEther(gas * this.price)} ether`);
      const limit = gas + gas / 20n < BigInt(GAS) ? gas + gas / 20n : BigInt(GAS);
      const receipt = await (await wallet.sendTransaction({ to, data: `0x${data}`, gasLimit: limit })).wait();
      this.spent += receipt.gasUsed;
      console.log(`sent: ${receipt.hash}, ${receipt.gasUsed} gas`);
      this.refused = 0;
    } catch (error) {
      // Somebody else may have sent the same, before or behind the estimate, or the chain was reorganised: what it says now decides.
      this.spent += error.receipt?.gasUsed ?? 0n;
      if (++this.refused === 5) throw error;
      console.error(`not done: ${shown(error)}; what the chain says is asked again`);
      await wait(200);
    }
  }
}

/** The next transaction that has few enough bytes and little enough gas, and its gas. */
async function largest(rest, estimate) {
  if (finished(rest)) return null;
  for (let most = GAS; ; most = Math.floor(most * 0.9)) {
    const { data, about, stages } = next(rest, { bytes: BYTES, gas: most });
    let gas = null;
    try {
      gas = await estimate(data);
      if (gas <= BigInt(GAS)) return { data, about, gas };
    } catch (error) {
      if (stages <= 1 || most < GAS / 8) throw error;
    }
    if (stages === 0 || (stages === 1 && rest.begun) || most < GAS / 8) throw new Error(`${about}: more gas than a transaction has`);
  }
}

async function plannedOf(rest, own, price, provider, verifier, stored) {
  let [bytes, transactions] = [0, 0];
  let first = null;
  for (let state = rest; !finished(state); transactions++) {
    const transaction = next(state);
    first ??= transaction;
    bytes += transaction.data.length / 2;
    console.log(`${transaction.about}: ${transaction.data.length / 2} bytes`);
    state = transaction.after;
  }
  if (first && stored) {
    const { gas, about } = await largest(rest, (data) => provider.estimateGas({ to: verifier, data: `0x${data}` }));
    console.log(`the first one, ${about}: ${gas} gas, ${formatEther(gas * price)} ether at ${price} wei a gas`);
  }
  // The limits of bytes are those of every transaction, at 40 gas a byte and 10 a zero: no transaction costs less.
  console.log(`${transactions} transactions or more, ${bytes} bytes; submission ${own.id}; nothing was sent (--send sends)`);
}

run().catch((error) => fail(`error: ${shown(error)}`));
