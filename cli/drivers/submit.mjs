#!/usr/bin/env node
// Sends a proof to the contracts of a chain, transaction by transaction, and ends with the fact (docs/chain.md).
//
//   tessera chain pack story.proof --key MODEL/model.key --out story.calls
//   node cli/drivers/submit.mjs story.calls --rpc URL --verifier ADDRESS [--send]
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
    };
  } catch (error) {
    if (!/MODULE_NOT_FOUND/.test(error.code)) throw error;
    console.error("its libraries are missing: npm ci --ignore-scripts in the folder chain");
    return process.exit(2);
  }
};
const { JsonRpcProvider, Wallet, formatEther, selectors, steps, left, next, after, GAS } = await load();

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
  const provider = new JsonRpcProvider(rpc, undefined, { staticNetwork: true, batchMaxCount: 1 });
  const names = selectors();
  const call = async (to, data) => (await provider.call({ to, data: `0x${data}` })).slice(2);
  const addresses = {};
  for (const part of ["SAYING", "DERIVING", "OPENS", "AGGREGATES", "OPENING", "STARK"]) {
    addresses[part] = `0x${(await call(verifier, names.Verifier[part])).slice(24)}`;
  }
  const own = await steps(packed, names, (part, data) => call(addresses[part], data));
  const fact = async () => {
    const answer = await call(verifier, own.encode.verified(packed.plan, packed.prompt, packed.output));
    const [bits, block] = [0, 1].map((i) => Number(BigInt(`0x${answer.slice(64 * i, 64 * i + 64)}`)));
    return block === 0 ? null : { bits: bits / 10, block };
  };
  const standing = () => call(verifier, own.encode.standing(own.id));
  const price = (await provider.getFeeData()).maxFeePerGas ?? 0n;

  // What is left, by the bytes of a transaction. Gas of calls that follow others is not known before these are done.
  let rest = left(own, await standing());
  if (!send) {
    const found = await fact();
    if (found) return finished(found);
    return plannedOf(rest, own, price, provider, verifier);
  }
  const wallet = await account(keystore, provider);
  let spent = 0n;
  let refused = 0;
  for (let found = await fact(); ; found = await fact()) {
    if (found) {
      console.log(`spent now: ${spent} gas`);
      return finished(found);
    }
    // What was sent before a kill is waited for: the same again would be refused, and paid for.
    while ((await provider.getTransactionCount(wallet.address, "pending")) > (await provider.getTransactionCount(wallet.address, "latest"))) await wait(200);
    let receipt;
    try {
      rest = left(own, await standing());
      const estimate = (data) => provider.estimateGas({ from: wallet.address, to: verifier, data: `0x${data}` });
      const { transaction, about, gas } = await largest(rest, estimate);
      console.log(`${about}: about ${gas} gas, ${transaction.length / 2} bytes, at most ${formatEther(gas * price)} ether`);
      const limit = gas + gas / 20n < BigInt(GAS) ? gas + gas / 20n : BigInt(GAS);
      receipt = await (await wallet.sendTransaction({ to: verifier, data: `0x${transaction}`, gasLimit: limit })).wait();
      spent += receipt.gasUsed;
      console.log(`sent: ${receipt.hash}, ${receipt.gasUsed} gas`);
      refused = 0;
    } catch (error) {
      // Somebody else may have sent the same step, before or behind the estimate, or the chain was reorganised: what it says now decides.
      spent += error.receipt?.gasUsed ?? 0n;
      if (++refused === 5) throw error;
      console.error(`not done: ${shown(error)}; what the chain says is asked again`);
      await wait(200);
    }
  }
}

/** The longest transaction that has few enough bytes and little enough gas, and its gas. */
async function largest(rest, estimate) {
  for (let most = Infinity; ; ) {
    const { data, about, steps: count } = next(rest, most);
    try {
      const gas = await estimate(data);
      if (gas <= BigInt(GAS)) return { transaction: data, about, gas };
    } catch (error) {
      if (count === 1) throw error;
    }
    if (count === 1) throw new Error(`${about}: more gas than a transaction has`);
    most = count - 1;
  }
}

async function plannedOf(rest, own, price, provider, verifier) {
  let [bytes, transactions] = [0, 0];
  let first = null;
  for (let state = rest; ; transactions++) {
    const transaction = next(state);
    if (transaction.steps === 0) break;
    first ??= state;
    bytes += transaction.data.length / 2;
    console.log(`${transaction.about}: ${transaction.data.length / 2} bytes`);
    state = after(state, transaction);
  }
  if (first) {
    const { gas, about } = await largest(first, (data) => provider.estimateGas({ to: verifier, data: `0x${data}` }));
    console.log(`the first one, ${about}: ${gas} gas, ${formatEther(gas * price)} ether at ${price} wei a gas`);
  }
  // The limits of bytes are those of every transaction, at 40 gas a byte and 10 a zero: no transaction costs less.
  console.log(`${transactions} transactions or more, ${bytes} bytes; submission ${own.id}; nothing was sent (--send sends)`);
}

function finished({ bits, block }) {
  console.log(`verified: ${bits} bits, in block ${block}`);
}

run().catch((error) => fail(`error: ${shown(error)}`));
