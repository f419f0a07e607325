// Deploys the contracts to a local chain, as anybody does: by cli/drivers/contracts.mjs.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { CHAIN_ID } from "./node.mjs";

const script = fileURLToPath(new URL("../../cli/drivers/contracts.mjs", import.meta.url));

/** Runs the script, whose last line it returns. */
export function contracts(node, args, env = {}) {
  const text = execFileSync(process.execPath, [script, ...args, "--rpc", node.url], { env: { ...process.env, ...env }, encoding: "utf8" });
  return text.trim().split("\n").at(-1);
}

/** Returns the address of the verifier, whose code is compared with its source. */
export function deploy(node, key) {
  const args = ["deploy", "--send", "--chain-id", CHAIN_ID, "--max-total", "10"];
  const verifier = /the verifier is at (0x[0-9a-fA-F]{40})/.exec(contracts(node, args, { TESSERA_CHAIN_KEY: key }))[1];
  if (!/is that of the sources/.test(contracts(node, ["check", "--verifier", verifier]))) throw new Error("contracts that are not those of the sources");
  return verifier;
}
