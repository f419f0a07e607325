// A local chain of its own, on a free port of the loopback interface, ended with the test.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { createServer } from "node:net";

const anvil = createRequire(import.meta.url).resolve("@foundry-rs/anvil-linux-amd64/bin/anvil");

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** The chain of every node here. */
export const CHAIN_ID = "31337";

/** How often a receipt is asked for. */
const TRIES = 2000;

/**
 * Starts a node; `rpc(method, ...params)` calls it, `receiptOf(transaction)` sends and waits, others find it at `url`, `stop()` ends it.
 */
export async function start() {
  const port = await freePort();
  // A transaction of the last rules has 2^24 gas at most. Parts are called here, without a transaction and without that limit.
  const flags = ["--host", "127.0.0.1", "--port", String(port), "--silent", "--hardfork", "osaka"];
  const child = spawn(anvil, [...flags, "--gas-limit", "1000000000", "--disable-code-size-limit"], { stdio: "inherit" });
  const rpc = async (method, ...params) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const answer = await fetch(`http://127.0.0.1:${port}`, { method: "POST", headers: { "content-type": "application/json" }, body });
    const { result, error } = await answer.json();
    if (error) throw Object.assign(new Error(error.message), { data: error.data });
    return result;
  };
  for (let tries = 0; ; tries++) {
    try {
      await rpc("eth_chainId");
      break;
    } catch (error) {
      if (tries === 200 || child.exitCode !== null) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  const receiptOf = async (transaction) => {
    const sent = await rpc("eth_sendTransaction", transaction);
    for (let tries = 1; tries <= TRIES; tries++) {
      const receipt = await rpc("eth_getTransactionReceipt", sent);
      if (receipt) return receipt;
      // After a revert to an earlier state the node may leave a transaction where it is.
      if (tries % 100 === 0) await rpc("evm_mine");
      await new Promise((resolve) => setTimeout(resolve, Math.min(tries, 20)));
    }
    throw new Error(`the node does not mine ${sent}`);
  };
  return { rpc, receiptOf, url: `http://127.0.0.1:${port}`, stop: () => child.kill() };
}
