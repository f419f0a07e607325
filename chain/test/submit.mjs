// cli/drivers/submit.mjs against a local chain: killed at every boundary and at random moments, two at once, and when the chain is
// reorganised. `node test/submit.mjs CALLS`, with what `tessera chain pack` writes. Every submission has to end with the fact, and no key
// may be seen.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { JsonRpcProvider, Wallet } from "ethers";
import { CHAIN_ID, start } from "../lib/node.mjs";
import { encoder, GAS } from "../lib/proof.mjs";
import { selectors } from "../lib/selectors.mjs";
import { deploy } from "../lib/deploy.mjs";

const [calls] = process.argv.slice(2);
if (!calls) {
  console.error("usage: node test/submit.mjs CALLS");
  process.exit(2);
}
const script = fileURLToPath(new URL("../../cli/drivers/submit.mjs", import.meta.url));
const { plan, prompt, output, context } = JSON.parse(readFileSync(calls, "utf8"));
const wallets = [Wallet.createRandom(), Wallet.createRandom()];
const node = await start();
const provider = new JsonRpcProvider(node.url, undefined, { staticNetwork: true, batchMaxCount: 1, cacheTimeout: -1 });
const children = new Set();
const SEND = ["--send", "--chain-id", CHAIN_ID, "--max-total", "10"];

/** Runs the script; `watch(line, kill)` is called with each line that it prints. */
function submit(verifier, wallet, { watch = () => {}, after, args = SEND, env } = {}) {
  return new Promise((resolve) => {
    const all = [script, calls, "--rpc", node.url, "--verifier", verifier, ...args];
    const child = spawn(process.execPath, all, { env: { ...process.env, TESSERA_CHAIN_KEY: wallet.privateKey, ...env } });
    children.add(child);
    const begun = Date.now();
    let text = "";
    const kill = () => child.kill("SIGKILL");
    const timer = after === undefined ? null : setTimeout(kill, after);
    let seen = 0;
    const read = (data) => {
      text += data;
      const lines = text.split("\n");
      for (; seen < lines.length - 1; seen++) watch(lines[seen], kill);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("close", (code) => {
      clearTimeout(timer);
      children.delete(child);
      if (text.includes(wallet.privateKey.slice(2))) throw new Error("a key was printed");
      resolve({ code, text, time: Date.now() - begun });
    });
  });
}

const must = (condition, about, { text } = { text: "" }) => {
  if (!condition) throw new Error(`${about}\n${text}`);
};
const encode = encoder(selectors().Verifier);
const fact = async (verifier) => BigInt(`0x${(await provider.call({ to: verifier, data: `0x${encode.verified(plan, prompt, output, context)}` })).slice(66)}`) !== 0n;

try {
  for (const { address } of wallets) await node.rpc("anvil_setBalance", address, "0x3635c9adc5dea00000");
  const other = Wallet.createRandom();
  await node.rpc("anvil_setBalance", other.address, "0x3635c9adc5dea00000");
  const verifier = deploy(node, other.privateKey);
  let clean = await node.rpc("evm_snapshot");
  const reset = async () => {
    await node.rpc("evm_revert", clean);
    clean = await node.rpc("evm_snapshot");
    must(!(await fact(verifier)), "a fact of a submission that was not made");
  };

  // As it is meant to be: a dry run sends nothing, then all is sent, then there is nothing left to do.
  const [wallet, second] = wallets;
  const dry = await submit(verifier, wallet, { args: [], env: { TESSERA_CHAIN_KEY: "" } });
  must(dry.code === 0 && /nothing was sent/.test(dry.text), "the dry run", dry);
  must((await provider.getTransactionCount(wallet.address)) === 0, "a dry run that sends");
  const whole = await submit(verifier, wallet);
  must(whole.code === 0 && /verified: [0-9.]+ bits/.test(whole.text) && (await fact(verifier)), "a submission", whole);
  console.log(dry.text + whole.text);
  const sent = whole.text.match(/^sent: /gm).length;
  // Receipts, and what the limits are that a node of one's own does not have.
  let all = 0n;
  for (const [, hash] of whole.text.matchAll(/^sent: (0x[0-9a-f]+)/gm)) {
    const receipt = await provider.getTransactionReceipt(hash);
    const raw = await node.rpc("eth_getRawTransactionByHash", hash);
    must(receipt.gasUsed <= BigInt(GAS) && raw.length / 2 - 1 <= 1 << 17, "a transaction beyond a limit");
    all += receipt.gasUsed;
  }
  console.log(`${sent} transactions, ${all} gas`);
  const again = await submit(verifier, wallet);
  must(again.code === 0 && !/^sent: /m.test(again.text), "nothing is sent for a fact that is there", again);

  // What is wrong is said, and sends nothing.
  await reset();
  const bad = await submit(verifier, wallet, { env: { TESSERA_CHAIN_KEY: `${wallet.privateKey}00` } });
  must(bad.code === 2 && /is no private key/.test(bad.text), "a key that is none", bad);

  // Killed at random moments, until it is done.
  await reset();
  let kills = 0;
  for (let i = 0; i < 10; i++) {
    const after = Math.floor(Math.random() * whole.time * 0.95);
    const { code } = await submit(verifier, wallet, { after });
    if (code !== 0) kills++;
    if (await fact(verifier)) await reset();
  }
  const last = await submit(verifier, wallet);
  must(last.code === 0 && (await fact(verifier)), "killed at random moments", last);
  console.log(`killed at ${kills} random moments`);

  // Two at once.
  await reset();
  const both = await Promise.all([submit(verifier, wallet), submit(verifier, second)]);
  must(both.every(({ code }) => code === 0) && (await fact(verifier)), "two submitters", { text: both.map(({ text }) => text).join("\n") });
  const twice = both.map(({ text }) => (text.match(/^sent: /gm) ?? []).length);
  console.log(`two at once: ${twice.join(" and ")} transactions`);

  // The chain forgets what was done last.
  await reset();
  let count = 0;
  await submit(verifier, wallet, { watch: (line, kill) => line.startsWith("sent: ") && count++ === 2 && kill() });
  await node.rpc("anvil_reorg", 2, []);
  const reorganised = await submit(verifier, wallet);
  must(reorganised.code === 0 && (await fact(verifier)), "a reorganisation", reorganised);
  console.log("a reorganisation of two blocks: done again");

  // Killed at every boundary.
  for (let boundary = 0; boundary < sent; boundary++) {
    await reset();
    let count = 0;
    const killed = await submit(verifier, wallet, { watch: (line, kill) => line.startsWith("sent: ") && count++ === boundary && kill() });
    const rest = await submit(verifier, wallet);
    const more = (rest.text.match(/^sent: /gm) ?? []).length;
    must(killed.code !== 0 || boundary === sent - 1, "killed", killed);
    must(rest.code === 0 && (await fact(verifier)) && more <= sent - boundary - 1, `killed behind transaction ${boundary + 1}`, rest);
  }
  // And where a transaction is about to be sent.
  for (let boundary = 0; boundary < sent; boundary++) {
    await reset();
    let count = 0;
    await submit(verifier, wallet, { watch: (line, kill) => / at most .* ether/.test(line) && count++ === boundary && kill() });
    const rest = await submit(verifier, wallet);
    must(rest.code === 0 && (await fact(verifier)), `killed before transaction ${boundary + 1}`, rest);
  }
  console.log(`killed at ${2 * sent} boundaries`);
} finally {
  for (const child of children) child.kill();
  node.stop();
  provider.destroy();
}
