// Deploys the contracts: those without state, then the verifier that knows them.
import { compile } from "./compile.mjs";
import { PARTS } from "./selectors.mjs";

const word = (address) => address.slice(2).toLowerCase().padStart(64, "0");

/** With an account of a client library; returns the address of the verifier. */
export async function deploy(wallet) {
  const addresses = [];
  for (const [, file, contract] of PARTS) addresses.push(await create(wallet, compile(file, contract).code));
  return create(wallet, compile("contracts/Verifier.sol", "Verifier").code, ...addresses);
}

/** One contract, whose constructor takes addresses. */
export async function create(wallet, code, ...addresses) {
  const sent = await wallet.sendTransaction({ data: code + addresses.map(word).join("") });
  const { contractAddress, status } = await sent.wait();
  if (status !== 1) throw new Error("a contract is not deployed");
  return contractAddress;
}
