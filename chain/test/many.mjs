// Submits many packed proofs to one verifier on a local chain, one after the other, and says what each took: `node test/many.mjs CALLS..`.
// Takes minutes for a real model, so no step of `.ci/run` calls it; `fixtures/sweeps/questions.py` does.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Wallet } from "ethers";
import { deploy } from "../lib/deploy.mjs";
import { CHAIN_ID, start } from "../lib/node.mjs";

const files = process.argv.slice(2);
const driver = fileURLToPath(new URL("../../cli/drivers/submit.mjs", import.meta.url));
const node = await start();

/** The exit status and the last lines of a submission. */
function submit(file, verifier, key) {
  const args = [driver, file, "--rpc", node.url, "--verifier", verifier, "--send", "--chain-id", CHAIN_ID, "--max-total", "100", "--max-fee", "10000"];
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, TESSERA_CHAIN_KEY: key } });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (text += data));
    child.on("exit", (code) => resolve({ code, text: text.trim().split("\n").slice(-2).join("; ") }));
  });
}

let failures = 0;
try {
  const [deployer, payer] = [Wallet.createRandom(), Wallet.createRandom()];
  for (const { address } of [deployer, payer]) await node.rpc("anvil_setBalance", address, "0xd3c21bcecceda1000000");
  const verifier = deploy(node, deployer.privateKey);
  for (const file of files) {
    const { code, text } = await submit(file, verifier, payer.privateKey);
    failures += code === 0 ? 0 : 1;
    console.log(`${file}: status ${code}; ${text}`);
  }
} finally {
  node.stop();
}
console.log(`${files.length - failures} of ${files.length} verified`);
process.exit(failures ? 1 : 0);
