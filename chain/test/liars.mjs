// cli/drivers/submit.mjs with nodes that lie, lag, drop transactions, refuse and fall silent: `node test/liars.mjs CALLS`, with what
// `tessera chain pack` writes. Of every one the exit status and the cost are known: how many transactions are mined, and what they are signed for.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Transaction, Wallet, parseEther, parseUnits } from "ethers";
import { CHAIN_ID, start } from "../lib/node.mjs";
import { deploy } from "../lib/deploy.mjs";
import { proxy } from "./proxy.mjs";

const [calls] = process.argv.slice(2);
if (!calls) {
  console.error("usage: node test/liars.mjs CALLS");
  process.exit(2);
}
const script = fileURLToPath(new URL("../../cli/drivers/submit.mjs", import.meta.url));
const packed = JSON.parse(readFileSync(calls, "utf8"));
const folder = mkdtempSync(join(tmpdir(), "tessera-liars-"));
const SECRET = "s3cretOfTheUrl";
const HOSTILE = "\u001b[2J\u001b]0;owned\u0007\r\nverified: 99 bits\u202e";
const wallet = Wallet.createRandom();
const node = await start();
const hex = (value) => `0x${BigInt(value).toString(16)}`;

/** Runs the script; returns its status, all that it prints, how many of its transactions are mined, and the raw ones that it sent. */
async function submit(lie, args, env, url) {
  const raws = new Set();
  const before = await node.rpc("eth_getTransactionCount", wallet.address, "latest");
  const own = await proxy(node, (method, params, forward, request) => {
    if (method === "eth_sendRawTransaction") raws.add(params[0]);
    return lie(method, params, forward, request);
  });
  try {
    const child = spawn(process.execPath, [script, ...args], {
      env: { ...process.env, TESSERA_CHAIN_KEY: wallet.privateKey, TESSERA_CHAIN_RPC: url?.(own.host) ?? own.url, ...env },
    });
    let text = "";
    child.stdout.on("data", (data) => (text += data));
    child.stderr.on("data", (data) => (text += data));
    const code = await new Promise((resolve) => child.on("close", resolve));
    const mined = Number(BigInt(await node.rpc("eth_getTransactionCount", wallet.address, "latest")) - BigInt(before));
    return { code, text, mined, sent: [...raws].map((raw) => Transaction.from(raw)) };
  } finally {
    own.stop();
  }
}

const honest = (method, params, forward) => forward(method, params);
/** Lies about the results of one method; `change` is given the true one. */
const about = (name, change) => async (method, params, forward) => {
  const result = await forward(method, params);
  return method === name ? change(result, params) : result;
};
const fail = (error) => {
  throw error;
};
const base = (fee) => about("eth_getBlockByNumber", (block) => ({ ...block, baseFeePerGas: hex(fee) }));
/** Of the first transaction only, or of all. */
function dropping(count, receipts) {
  const dropped = new Set();
  let left = count;
  return async (method, params, forward) => {
    if (method === "eth_sendRawTransaction" && left > 0) {
      left--;
      dropped.add(Transaction.from(params[0]).hash);
      return Transaction.from(params[0]).hash;
    }
    if (receipts && method === "eth_getTransactionReceipt" && dropped.has(params[0])) {
      return { transactionHash: params[0], status: "0x1", gasUsed: "0x5208", blockNumber: await forward("eth_blockNumber", []) };
    }
    return forward(method, params);
  };
}
/** Reads are those of a node that gets every block `milliseconds` late; receipts come from another one. */
function lagging(milliseconds) {
  const heads = [];
  let watched = null;
  const seen = async (forward) => {
    const number = Number(await forward("eth_blockNumber", []));
    if (heads.at(-1)?.number !== number) heads.push({ number, from: Date.now() });
    watched ??= number;
    return heads.filter(({ from }) => Date.now() - from >= milliseconds).at(-1)?.number ?? watched;
  };
  return async (method, params, forward) => {
    const place = { eth_call: 1, eth_getCode: 1, eth_estimateGas: 1, eth_getTransactionCount: 1 }[method];
    const result = place === undefined ? await forward(method, params) : null;
    const head = await seen(forward);
    if (place === undefined) return result;
    const own = [...params];
    if (own[place] === "latest") own[place] = hex(head);
    else if (own[place] !== "pending" && Number(own[place]) > head) throw new Error("header not found");
    return forward(method, own);
  };
}

try {
  await node.rpc("anvil_setBalance", wallet.address, hex(parseEther("1000")));
  const deployer = Wallet.createRandom();
  await node.rpc("anvil_setBalance", deployer.address, hex(parseEther("1000")));
  const verifier = deploy(node, deployer.privateKey);
  const SEND = [calls, "--verifier", verifier, "--send", "--chain-id", CHAIN_ID];
  const PLENTY = ["--max-total", "10", "--timeout", "60"];
  const SOON = ["--max-total", "10", "--timeout", "3"];

  const file = (change) => {
    const own = structuredClone(packed);
    change(own);
    const path = join(folder, "changed.calls");
    writeFileSync(path, JSON.stringify(own));
    return [path, ...SEND.slice(1), ...PLENTY];
  };
  const flipped = (own) => own.slice(0, 40) + (own[40] === "0" ? "1" : "0") + own.slice(41);
  let clean = await node.rpc("evm_snapshot");
  let count = 0;
  const failures = [];
  /** What a node does, and what has to come of it. `mined` is the number of transactions, or what is said of it. */
  async function expect(name, lie, { args = PLENTY, whole, code, mined, says, env, url, prepare, total = "10", tip = "2" }) {
    await node.rpc("evm_revert", clean);
    clean = await node.rpc("evm_snapshot");
    await prepare?.();
    const got = await submit(lie, whole ?? [...SEND, ...args], env, url);
    const wrong = [];
    if (got.code !== code) wrong.push(`status ${got.code}, expected ${code}`);
    if (typeof mined === "number" ? got.mined !== mined : !mined(got.mined)) wrong.push(`${got.mined} transactions are mined, expected ${mined}`);
    if (!says.test(got.text)) wrong.push(`it does not say ${says}`);
    const signed = got.sent.reduce((sum, own) => sum + own.gasLimit * own.maxFeePerGas, 0n);
    if (signed > parseEther(total)) wrong.push(`${signed} wei are signed for`);
    if (got.sent.some((own) => own.maxPriorityFeePerGas > parseUnits(tip, "gwei") || own.chainId !== BigInt(CHAIN_ID))) wrong.push("signed beyond a limit");
    if (/[^\x20-\x7e\n]/.test(got.text)) wrong.push("something reaches the terminal unescaped");
    if (got.text.includes(SECRET) || got.text.includes(wallet.privateKey.slice(2))) wrong.push("a secret is printed");
    console.log(`${name}: status ${got.code}, ${got.mined} transactions; ${wrong.join("; ") || got.text.trim().split("\n").at(-1)}`);
    if (wrong.length > 0) failures.push(`${name}: ${wrong.join("; ")}\n${got.text}`);
    count++;
    return got;
  }

  // The pages of the program first, which is a submission of its own: so the rest is one of the proof alone.
  const pages = packed.program.flat().length;
  await expect("pages that are stored, and said to be missing", about("eth_getCode", (code) => (code.length > 2 && code.startsWith("0x00") ? "0x" : code)), { code: 2, mined: 1, says: /a page was stored, and that it was not: it lies/ });
  const { said, opening, ...program } = packed;
  const registered = join(folder, "program.calls");
  writeFileSync(registered, JSON.stringify(program));
  await expect("an honest node, for the program", honest, { whole: [registered, ...SEND.slice(1), ...PLENTY], code: 0, mined: pages, says: /is stored/ });
  clean = await node.rpc("evm_snapshot");
  const { mined: all } = await expect("an honest node", honest, { code: 0, mined: (count) => count > 1, says: /verified: [0-9.]+ bits/ });

  // Fees.
  await expect("a fee of 10,000 gwei, with --max-fee", base(10n ** 13n), { args: [...PLENTY, "--max-fee", "50"], code: 2, mined: 0, says: /more than --max-fee/ });
  await expect("a fee of 10,000 gwei, with --max-total", base(10n ** 13n), { args: ["--max-total", "0.1"], total: "0.1", code: 2, mined: 0, says: /more than --max-total/ });
  await expect("a fee that leaves no room for all", base(10n ** 9n), { args: ["--max-total", "0.06"], total: "0.06", code: 2, mined: (count) => count < all, says: /that are signed: more than --max-total/ });
  await expect("a tip of 1,000,000 gwei", about("eth_maxPriorityFeePerGas", () => hex(10n ** 15n)), { code: 0, mined: all, says: /verified/ });
  await expect("a tip of 1,000,000 gwei, with --max-tip", about("eth_maxPriorityFeePerGas", () => hex(10n ** 15n)), { args: [...PLENTY, "--max-tip", "0.5", "--max-fee", "20"], tip: "0.5", code: 0, mined: all, says: /verified/ });
  await expect("a fee that is no number", about("eth_maxPriorityFeePerGas", () => HOSTILE), { code: 2, mined: 0, says: /no quantity/ });
  // Chain, code and file.
  await expect("another chain", about("eth_chainId", () => "0x1"), { code: 2, mined: 0, says: /is of chain 1, not of chain 31337/ });
  await expect("no chain that is meant", honest, { whole: [calls, "--verifier", verifier, "--send", ...PLENTY], code: 2, mined: 0, says: /--send needs --chain-id and --max-total/ });
  await expect("another code of the verifier", about("eth_getCode", (code, [where]) => (where === verifier ? flipped(code) : code)), { code: 2, mined: 0, says: /is not Verifier as its source/ });
  await expect("another code of what the verifier calls", about("eth_getCode", (code, [where]) => (where === verifier ? code : flipped(code))), { code: 2, mined: 0, says: /is not Saying as its source/ });
  await expect("another contract", honest, { whole: [calls, "--verifier", wallet.address, ...SEND.slice(3), ...PLENTY], code: 2, mined: 0, says: /there is no contract at/ });
  await expect("a file with another header", honest, { whole: file((own) => (own.header = flipped(own.header))), code: 2, mined: 0, says: /not those of the plan/ });
  await expect("a file with another page", honest, { whole: file((own) => (own.program[0][0] = flipped(own.program[0][0]))), code: 2, mined: 0, says: /segment 1 has another digest/ });
  await expect("a file with another context", honest, { whole: file((own) => (own.context = flipped(own.context))), code: 2, mined: 0, says: /another prompt, output or context/ });
  await expect("a file with other rows", honest, { whole: file((own) => (own.opening.stages[0] = flipped(own.opening.stages[0]))), code: 2, mined: 0, says: /refuses eth_call/ });
  // Receipts and blocks.
  const receipt = (change) => about("eth_getTransactionReceipt", (own) => own && { ...own, ...change(own) });
  await expect("receipts of transactions that are dropped", dropping(9, true), { args: SOON, code: 2, mined: 0, says: /not where it brings it/ });
  await expect("receipts of a failure", receipt(() => ({ status: "0x0" })), { code: 2, mined: 1, says: /mined and reverted/ });
  await expect("receipts of other transactions", receipt(() => ({ transactionHash: `0x${"7".repeat(64)}` })), { code: 2, mined: 1, says: /receipt of another transaction/ });
  await expect("receipts of blocks to come", receipt((own) => ({ blockNumber: hex(BigInt(own.blockNumber) + 1000n) })), { args: SOON, code: 2, mined: 1, says: /was asked for eth_call for 3 s/ });
  await expect("receipts of blocks before", receipt((own) => ({ blockNumber: hex(BigInt(own.blockNumber) - 1n) })), { code: 2, mined: 1, says: /not where it brings it/ });
  await expect("receipts that are none", receipt(() => ({ gasUsed: HOSTILE })), { code: 2, mined: 1, says: /no quantity/ });
  // More than its bytes take by themselves, so that it is mined, and less than it needs.
  await expect("too little gas", about("eth_estimateGas", () => hex(5_000_000)), { code: 2, mined: 1, says: /mined and reverted/ });
  // Lags, losses and silence.
  await expect("a lag of 2 s", lagging(2_000), { code: 0, mined: all, says: /verified/ });
  await expect("a transaction that is dropped once", dropping(1, false), { code: 0, mined: all, says: /verified/ });
  await expect("transactions that are dropped", dropping(1e9, false), { args: SOON, code: 2, mined: 0, says: /has had no receipt for 3 s/ });
  await expect("silence", () => fail({ silent: true }), { args: SOON, code: 2, mined: 0, says: /was asked for eth_chainId for 3 s/ });
  let busy = 3;
  await expect("a node that is busy at first", (...own) => (busy-- > 0 ? fail({ status: 429 }) : honest(...own)), { code: 0, mined: all, says: /verified/ });
  await expect("a node that is always busy", () => fail({ status: 503 }), { args: SOON, code: 2, mined: 0, says: /HTTP 503/ });
  await expect("no credentials", () => fail({ status: 401 }), { code: 2, mined: 0, says: /refuses the credentials: HTTP 401/ });
  // What is printed.
  const secret = (host) => `http://user:${SECRET}@${host}/v3/${SECRET}?key=${SECRET}`;
  const named = (method, params, forward, { headers, url }) => (headers.authorization && url.includes(SECRET) ? forward(method, params) : fail({ status: 401 }));
  await expect("a URL with secrets", named, { url: secret, code: 0, mined: all, says: /verified/ });
  await expect("a URL with secrets, refused", () => fail({ status: 401 }), { url: secret, code: 2, mined: 0, says: /refuses the credentials/ });
  await expect("a URL with secrets, where nobody listens", honest, { url: () => secret("127.0.0.1:1"), args: SOON, code: 2, mined: 0, says: /no connection/ });
  await expect("a URL with secrets among the arguments", honest, { args: [...PLENTY, "--rpc", "http://127.0.0.1:1/v3/key"], code: 2, mined: 0, says: /every process here can see/ });
  await expect("hostile reasons", (method, ...own) => (method === "eth_estimateGas" ? fail(new Error(HOSTILE)) : honest(method, ...own)), { code: 2, mined: 0, says: /\\u\{1b\}\[2J/ });
  await expect("hostile chains", about("eth_chainId", () => HOSTILE), { code: 2, mined: 0, says: /no quantity/ });
  // Smaller transactions, for other chains.
  const small = await expect("--max-bytes and --max-gas", honest, { args: [...PLENTY, "--max-bytes", "90000", "--max-gas", "14000000"], code: 0, mined: (count) => count > all, says: /verified/ });
  if (small.sent.some(({ data, gasLimit }) => data.length / 2 - 1 > 90_000 || gasLimit > 14_000_000n)) failures.push("a transaction beyond --max-bytes or --max-gas");

  if (failures.length > 0) throw new Error(failures.join("\n"));
  console.log(`${count} nodes, as they had to end`);
} finally {
  node.stop();
  rmSync(folder, { recursive: true, force: true });
}
