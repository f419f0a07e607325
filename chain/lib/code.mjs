// Contracts on a chain: deployed, and compared with their sources.
import { getCreateAddress } from "ethers";
import { compile } from "./compile.mjs";
import { word } from "./encoding.mjs";
import { Failure } from "./rpc.mjs";
import { PARTS } from "./selectors.mjs";

const verifier = () => compile("contracts/Verifier.sol", "Verifier");

/** Run-time code with what the constructor writes into it left out. */
function masked(code, immutables) {
  let own = code;
  for (const { start, length } of Object.values(immutables).flat()) own = own.slice(0, 2 * start) + "0".repeat(2 * length) + own.slice(2 * (start + length));
  return own;
}

/** Throws unless the verifier and all contracts that it calls are those of the sources. Returns their addresses by name. */
export async function checked(node, address) {
  const { runtime, immutables, selectors } = verifier();
  const same = async (name, where, own, left = {}) => {
    const code = await node.code(where);
    if (code === "") throw new Failure(`there is no contract at ${where}, where ${name} should be`);
    if (masked(code, left) !== own) throw new Failure(`the contract at ${where} is not ${name} as its source is compiled here`);
    return code;
  };
  const code = await same("Verifier", address, runtime, immutables);
  const addresses = { Verifier: address };
  for (const [name, file, contract] of PARTS) {
    const found = await node.call(address, selectors[name]);
    if (!/^0{24}[0-9a-f]{40}$/.test(found)) throw new Failure(`the contract at ${address} does not say where ${contract} is`);
    addresses[name] = `0x${found.slice(24)}`;
    await same(contract, addresses[name], compile(file, contract).runtime);
  }
  // What the constructor wrote are these addresses and nothing else.
  const written = Object.values(immutables).flatMap((places) => [...new Set(places.map(({ start, length }) => code.slice(2 * start, 2 * (start + length))))]);
  const expected = PARTS.map(([name]) => word(addresses[name]));
  if (written.sort().join() !== expected.sort().join()) throw new Failure(`the contract at ${address} is Verifier with other contracts than it says`);
  return addresses;
}

/** Deploys a contract whose constructor takes addresses; returns where it is. */
async function create(sender, name, { code }, ...addresses) {
  const data = code.slice(2) + addresses.map(word).join("");
  const gas = await sender.node.formed("quantity", "eth_estimateGas", { from: sender.wallet.address, data: `0x${data}` }, sender.node.block);
  const from = sender.wallet.address;
  const address = getCreateAddress({ from, nonce: Number(await sender.next()) });
  await sender.send(null, data, name, gas);
  if ((await sender.node.code(address)) === "") throw new Failure(`the node says that ${name} is deployed, but there is no contract at ${address}`);
  console.log(`${name}: ${address}`);
  return address;
}

/** Deploys the contracts without state, then the verifier that knows them; returns where it is. */
export async function deployed(sender) {
  const addresses = [];
  for (const [, file, contract] of PARTS) addresses.push(await create(sender, contract, compile(file, contract)));
  const own = await create(sender, "Verifier", verifier(), ...addresses);
  await checked(sender.node, own);
  return own;
}

/** Bytes of code of all contracts, and gas that deploying them takes, about: 200 a byte of code, and calldata. */
export function size() {
  const own = [...PARTS.map(([, file, contract]) => compile(file, contract)), verifier()];
  return { count: own.length, gas: own.reduce((sum, { size }) => sum + 245n * BigInt(size) + 60_000n, 0n) };
}
