// What the commands that ask a chain have in common: options, the account that pays, limits.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Wallet, getAddress, parseUnits } from "ethers";
import { Failure, Node, shown } from "./rpc.mjs";
import { BYTES, GAS } from "./proof.mjs";
import { Sender } from "./sender.mjs";

export const OPTIONS = {
  rpc: { type: "string" },
  "rpc-file": { type: "string" },
  timeout: { type: "string" },
  verifier: { type: "string" },
  from: { type: "string" },
  send: { type: "boolean" },
  keystore: { type: "string" },
  "chain-id": { type: "string" },
  "max-total": { type: "string" },
  "max-fee": { type: "string" },
  "max-tip": { type: "string" },
  "max-gas": { type: "string" },
  "max-bytes": { type: "string" },
};
/** What every command of a chain says of its options. */
export const HELP = `  --rpc URL            the node; or TESSERA_CHAIN_RPC, or --rpc-file FILE, where others must not see the URL
  --timeout SECONDS    how long a node may take for anything [300]
  --send               send; without it nothing is paid, and no account is needed
  --keystore FILE      the account that pays, its password in TESSERA_CHAIN_PASSWORD; or its key in TESSERA_CHAIN_KEY
  --chain-id N         the chain; needed to send
  --max-total ETHER    the most that all transactions together are signed for; needed to send
  --max-fee GWEI       the most that a unit of gas is signed for [--max-total decides]
  --max-tip GWEI       the most of it that is paid for being quick [2]
  --max-gas N          of a transaction [${GAS}]
  --max-bytes N        of a transaction's data [${BYTES}]`;

/** Arguments by name, as text. */
export function options(args, more = {}) {
  try {
    return parseArgs({ args, allowPositionals: true, options: { ...OPTIONS, ...more } });
  } catch (error) {
    throw new Failure(shown(error.message));
  }
}

function number(values, name, otherwise, most = Number.MAX_SAFE_INTEGER) {
  if (values[name] === undefined) return otherwise;
  const own = Number(values[name]);
  if (!/^[0-9]+$/.test(values[name]) || own < 1 || own > most) throw new Failure(`--${name}: expected a whole number from 1 to ${most}`);
  return own;
}

function wei(values, name, unit, otherwise) {
  if (values[name] === undefined) return otherwise;
  if (!/^[0-9]+(\.[0-9]+)?$/.test(values[name])) throw new Failure(`--${name}: expected a number of ${unit}, such as 0.05`);
  try {
    return parseUnits(values[name], unit);
  } catch {
    throw new Failure(`--${name}: ${unit} have fewer decimals`);
  }
}

export function address(values, name) {
  try {
    return getAddress(values[name]);
  } catch {
    throw new Failure(`--${name}: expected an address`);
  }
}

/** The node of the options or the environment. A URL in the arguments is seen by every process: none with a secret is taken from there. */
export function node(values) {
  const of = values["rpc-file"] !== undefined ? readFileSync(values["rpc-file"], "utf8").trim() : (values.rpc ?? process.env.TESSERA_CHAIN_RPC);
  if (!of) throw new Failure("no node: --rpc URL, --rpc-file FILE or TESSERA_CHAIN_RPC");
  const url = URL.canParse(of) ? new URL(of) : null;
  if (!url || !/^https?:$/.test(url.protocol)) throw new Failure("the address of the node is no URL of http or https");
  if (values["rpc-file"] === undefined && values.rpc !== undefined && (url.username || url.password || url.pathname !== "/" || url.search || url.hash)) {
    throw new Failure("--rpc: what is beside the host may be a secret, which every process here can see: put the URL into TESSERA_CHAIN_RPC or --rpc-file FILE");
  }
  return new Node(url, 1000 * number(values, "timeout", 300, 1_000_000));
}

/** The most bytes and gas of a transaction. */
export const most = (values) => ({ bytes: number(values, "max-bytes", BYTES), gas: number(values, "max-gas", GAS) });

/** Limits of what is signed; without one, one that is not reached. */
export function limits(values) {
  const total = wei(values, "max-total", "ether", 1n << 128n);
  return { total, fee: wei(values, "max-fee", "gwei", total), tip: wei(values, "max-tip", "gwei", 2_000_000_000n), gas: BigInt(most(values).gas) };
}

/** The account that pays. What goes wrong with its key is said without it. */
async function account(keystore) {
  if (keystore) {
    const password = process.env.TESSERA_CHAIN_PASSWORD;
    if (password === undefined) throw new Failure("TESSERA_CHAIN_PASSWORD has to have the password of the keystore");
    try {
      return await Wallet.fromEncryptedJson(readFileSync(keystore, "utf8"), password);
    } catch {
      throw new Failure("the keystore cannot be opened with this password");
    }
  }
  const key = process.env.TESSERA_CHAIN_KEY;
  if (!key) throw new Failure("TESSERA_CHAIN_KEY has to have a private key, or --keystore a file; without --send none is needed");
  try {
    return new Wallet(key.trim());
  } catch {
    throw new Failure("TESSERA_CHAIN_KEY is no private key");
  }
}

/** Whoever sends, or null without --send. The chain is compared with the one that is meant, if one is. */
export async function sender(values, node) {
  const meant = values["chain-id"] === undefined ? undefined : BigInt(number(values, "chain-id"));
  if (values.send && (meant === undefined || values["max-total"] === undefined)) throw new Failure("--send needs --chain-id and --max-total");
  const wallet = values.send ? await account(values.keystore) : null;
  const own = await node.chainId();
  if (meant !== undefined && own !== meant) throw new Failure(`the node at ${node.name} is of chain ${own}, not of chain ${meant}`);
  return wallet && new Sender(wallet, node, meant, limits(values));
}

/** Runs a command: failures are said in one line, with status 2. */
export async function main(run) {
  try {
    await run(process.argv.slice(2));
  } catch (error) {
    console.error(`error: ${shown(error.message)}`);
    process.exitCode = 2;
  }
}
