// Transactions of one account, signed here and sent one by one, within limits of what is signed.
import { formatEther, formatUnits, keccak256 } from "ethers";
import { Failure } from "./rpc.mjs";

export { formatEther };
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
export const gwei = (wei) => `${formatUnits(wei, "gwei")} gwei`;
const least = (a, b) => (a < b ? a : b);

/** What a unit of gas may cost, within the limits: at most `fee`, of it `tip` for being quick. */
export async function fees(node, limits) {
  const { base, tip } = await node.fees();
  if (base > limits.fee) throw new Failure(`the node says that a unit of gas costs ${gwei(base)}: more than --max-fee, ${gwei(limits.fee)}`);
  const own = least(tip, limits.tip);
  const fee = least(2n * base + own, limits.fee);
  return { fee, tip: least(own, fee) };
}

export class Sender {
  /** `wallet` signs; `limits` has `fee` and `tip` of a unit of gas and `total`, all in wei, and the most `gas` of a transaction. */
  constructor(wallet, node, chainId, limits) {
    Object.assign(this, { wallet, node, chainId, limits, gas: 0n, signed: 0n, nonce: null, told: 0 });
  }

  /** The number of the next transaction. One that was sent before a kill is waited for: the same again would be paid for. */
  async next() {
    if (this.nonce !== null) return this.nonce;
    const { node, wallet } = this;
    for (const deadline = Date.now() + node.timeout; ; await wait(500)) {
      const [pending, latest] = [await node.transactions(wallet.address, "pending"), await node.transactions(wallet.address, "latest")];
      if (pending <= latest) return (this.nonce = latest);
      if (Date.now() > deadline) throw new Failure(`a transaction of ${wallet.address} has been waiting to be mined for ${node.timeout / 1000} s; nothing was sent`);
    }
  }

  /** Signs and sends a transaction; what is read from then on is the block that it is in. `to` is null where a contract is created. */
  async send(to, data, about, gas) {
    const { node, wallet, limits, chainId } = this;
    const nonce = await this.next();
    const { fee, tip } = await fees(node, limits);
    const gasLimit = least(gas + gas / 20n, limits.gas);
    const worst = gasLimit * fee;
    if (this.signed + worst > limits.total) {
      const before = this.signed === 0n ? "" : ` after ${formatEther(this.signed)} ether that are signed`;
      throw new Failure(`${about}: at most ${formatEther(worst)} ether${before}: more than --max-total, ${formatEther(limits.total)} ether`);
    }
    console.log(`${about}: about ${gas} gas, ${data.length / 2} bytes, at most ${formatEther(worst)} ether`);
    const raw = await wallet.signTransaction({
      type: 2, chainId, nonce: Number(nonce), to, data: `0x${data}`, value: 0n, gasLimit, maxFeePerGas: fee, maxPriorityFeePerGas: tip,
    });
    const hash = keccak256(raw);
    this.signed += worst;
    const receipt = await node.deliver(raw, hash);
    this.nonce = nonce + 1n;
    this.gas += receipt.gas;
    node.block = receipt.block;
    console.log(`sent: ${hash}, ${receipt.gas} gas`);
    if (!receipt.done) throw new Failure(`the node says that transaction ${hash} was mined and reverted, and said before that it would not; nothing more is sent`);
    return receipt;
  }
}
