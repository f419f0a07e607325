// The whole way on a chain of one's own: set up the bundled model for contracts, prove a story in a context that names who is to be paid, deploy
// the contracts, offer a bounty for the story, submit the proof, and let the bounty read the fact. `node chain/demo.mjs [--tessera PROGRAM] [--keep DIR]`, from a clone in which
// `cargo build --release` and `npm ci --ignore-scripts` (in `chain`) were run.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ContractFactory, JsonRpcProvider, NonceManager, Wallet } from "ethers";
import { compile } from "./lib/compile.mjs";
import { deploy } from "./lib/deploy.mjs";
import { CHAIN_ID, start } from "./lib/node.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values } = parseArgs({ options: { tessera: { type: "string" }, keep: { type: "string" } } });
const tessera = values.tessera ?? join(root, "target/release/tessera");
const folder = values.keep ?? mkdtempSync(join(tmpdir(), "tessera-chain-"));
mkdirSync(folder, { recursive: true });
const own = (name) => join(folder, name);
const run = (...args) => {
  console.log(`tessera ${args.join(" ")}`);
  execFileSync(tessera, args, { stdio: ["ignore", "ignore", "inherit"] });
};

/** Submits as anybody does, with the key in the environment. */
function submit(node, verifier, key) {
  const args = [join(root, "cli/drivers/submit.mjs"), own("story.calls"), "--rpc", node.url, "--verifier", verifier];
  const once = (more, env) =>
    new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [...args, ...more], { stdio: "inherit", env: { ...process.env, ...env } });
      child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`submit.mjs ended with ${code}`))));
    });
  return once([], {}).then(() => once(["--send", "--chain-id", CHAIN_ID, "--max-total", "1"], { TESSERA_CHAIN_KEY: key }));
}

let node;
try {
  run("setup", join(root, "fixtures/tinystories-656k"), "--hash", "keccak", "--no-fidelity", "--quiet", "--out", own("model"));
  // The last twenty bytes of the context are the address that the bounty pays.
  const winner = Wallet.createRandom().address;
  run("prove", "--model", own("model"), "--prompt", "Once upon a time", "--tokens", "59", "--context", winner.slice(2).padStart(64, "0"), "--quiet", "--out", own("story.proof"));
  run("chain", "pack", own("story.proof"), "--key", own("model/model.key"), "--out", own("story.calls"));
  const { plan, prompt, output } = JSON.parse(readFileSync(own("story.calls"), "utf8"));

  node = await start();
  const provider = new JsonRpcProvider(node.url, undefined, { staticNetwork: true, batchMaxCount: 1, cacheTimeout: -1 });
  const [payer, other] = [Wallet.createRandom(), Wallet.createRandom()];
  for (const { address } of [payer, other]) await node.rpc("anvil_setBalance", address, "0x3635c9adc5dea00000");
  const wallet = new NonceManager(other.connect(provider));
  const verifier = deploy(node, other.privateKey);
  console.log(`the verifier is at ${verifier}`);
  const functions = ["constructor(address)", "function offer(bytes32, bytes32, bytes32, uint96, uint256) payable returns (uint256)", "function claim(uint256, address)"];
  const bounty = await new ContractFactory(functions, compile("contracts/Bounty.sol", "Bounty").code, wallet).deploy(verifier);
  await bounty.waitForDeployment();
  const facts = [plan, prompt, output].map((hex) => `0x${hex}`);
  await (await bounty.offer(...facts, 950, 1_000_000, { value: 1000n })).wait();
  console.log("a bounty of 1000 wei is offered for the story");

  await submit(node, verifier, payer.privateKey);

  await (await bounty.claim(0, winner)).wait();
  if ((await provider.getBalance(winner)) !== 1000n) throw new Error("the bounty is not paid");
  console.log(`the bounty read the fact and paid 1000 wei to ${winner}, whom the context of the proof names`);
  provider.destroy();
} finally {
  node?.stop();
  if (!values.keep) rmSync(folder, { recursive: true, force: true });
}
