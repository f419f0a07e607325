#!/usr/bin/env node
// Sends a proof to the contracts of a chain, transaction by transaction, and ends with the fact (docs/chain.md).
//
//   tessera chain pack story.proof --key MODEL/model.key --out story.calls
//   node cli/drivers/submit.mjs story.calls --rpc URL --verifier ADDRESS [--send --chain-id N --max-total ETHER]
//
// The program of the plan is stored first, if it is not, page by page: once for all proofs of the plan, by anybody. What
// `tessera chain register` writes has the program alone.
//
// Nothing is kept in files: killed anywhere, the same command goes on where the chain is. The node is not trusted: the file is checked by its
// own digests and the contracts by their sources before anything is paid, every transaction is followed by a look at what it did, in the
// block that it is in, and the first one that did something else is the last one.
import { readFileSync } from "node:fs";
import { libraries } from "./libraries.mjs";

const own = await libraries();
const { Failure, HELP, NONE, Refused, address, checked, fees, finished, formatEther, gwei, largest, left, limits, main, most } = own;
const { next, node: connect, options, pageAddress, read, selectors, sender: open, shown, steps, storing } = own;

const USAGE = `usage: submit.mjs CALLS --verifier ADDRESS [OPTIONS]

  --verifier ADDRESS   the verifier, as contracts.mjs deployed it
  --from ADDRESS       without --send: whose submission is looked at
  --restart            forget a submission of this account that took in rows which are none of this proof's, and begin again
${HELP}`;
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function run(args) {
  const { values, positionals } = options(args, { restart: { type: "boolean" } });
  if (positionals.length !== 1 || !values.verifier) throw new Failure("one file and --verifier are expected; submit.mjs --help");
  const [file] = positionals;
  const verifier = address(values, "verifier");
  const packed = read(readFileSync(file, "utf8"), shown(file));
  const node = connect(values);
  const sender = await open(values, node);
  const addresses = await checked(node, verifier);
  const names = selectors();
  const price = sender ? null : await fees(node, limits(values));

  const missing = await missingPages(packed.program.flat(), addresses.PAGES, node);
  if (missing.length > 0) await store(missing, addresses.PAGES, names.PAGES, sender, price);
  const stored = missing.length === 0 || sender !== null;
  if (!packed.said) return console.log(stored ? `the program of plan ${packed.plan} is stored` : "nothing was sent (--send sends)");
  const submission = await steps(packed, names, addresses.PAGES, (part, data) => node.call(addresses[part], data), stored);
  const { encode, id } = submission;
  const from = sender?.wallet.address ?? (values.from === undefined ? undefined : address(values, "from"));
  const chain = {
    node, verifier, from, most: most(values),
    async fact() {
      const answer = await node.call(verifier, encode.verified(packed.plan, packed.prompt, packed.output, packed.context));
      const [bits, block] = [0, 1].map((i) => Number(BigInt(`0x${answer.slice(64 * i, 64 * i + 64) || 0}`)));
      return block === 0 ? null : `verified: ${bits / 10} bits, in block ${block}`;
    },
    /** What is left to send. */
    rest: async () => left(submission, from === undefined ? NONE.repeat(3) : await node.call(verifier, encode.standing(from, id))),
  };
  if (!sender) return console.log((await chain.fact()) ?? (await planned(chain, submission, price, stored)));
  if (values.restart) await restart(chain, sender, encode.abandon(id));
  console.log(await submitted(chain, sender));
  console.log(`spent now: ${sender.gas} gas`);
}

/** Sends what is left, and ends with the fact. */
async function submitted(chain, sender) {
  for (let refused = 0; ; ) {
    const found = await chain.fact();
    if (found) return found;
    const rest = await chain.rest();
    if (finished(rest)) throw new Failure("the node says that everything is verified and that there is no fact: it lies");
    let chosen;
    try {
      chosen = await largest(rest, chain.most, (data) => chain.node.estimate(chain.from, chain.verifier, data));
    } catch (error) {
      // The chain may be reorganised, or somebody goes on with the same account: what it says now decides. Nothing was paid.
      if (!(error instanceof Refused) || ++refused === 5) throw error;
      console.error(`not done: ${error.message}; what the chain says is asked again`);
      chain.node.block = "latest";
      await wait(500);
      continue;
    }
    const { data, about, gas, after } = chosen;
    await sender.send(chain.verifier, data, about, gas);
    const { from, begun } = await chain.rest();
    if (!begun || from.some((place, part) => place < after.from[part])) {
      throw new Failure("the node says that the transaction was mined, and that the submission is not where it brings it: it lies, or the chain was reorganised. Nothing more is sent; the same command goes on");
    }
  }
}

/** Abandons a run that has a state which is none of this proof's. */
async function restart(chain, sender, data) {
  const stuck = await chain.rest().then(() => false, () => true);
  if (!stuck) return console.log("nothing is wrong with this submission: it goes on");
  await sender.send(chain.verifier, data, "abandoning the submission", await chain.node.estimate(chain.from, chain.verifier, data));
  if ((await chain.rest()).begun) throw new Failure("the node says that the submission was abandoned, and that it was not: it lies");
}

/** Pages of a program that are not stored. */
async function missingPages(all, pages, node) {
  const missing = [];
  for (const page of all) if ((await node.code(pageAddress(pages, page))) !== `00${page}`) missing.push(page);
  return missing;
}

/** Stores pages, or says what that takes. */
async function store(missing, pages, names, sender, price) {
  if (!sender) {
    const size = missing.reduce((sum, page) => sum + page.length / 2, 0);
    // 200 gas a byte of code, and calldata at 40 gas a byte at most.
    const gas = 240n * BigInt(size) + 100_000n * BigInt(missing.length);
    console.log(`the program of the plan is to be stored first, once: ${missing.length} pages, ${size} bytes, about ${gas} gas, at most ${formatEther(gas * price.fee)} ether`);
    return;
  }
  const { node, wallet } = sender;
  for (const page of missing) {
    const data = storing(names, page);
    await sender.send(pages, data, "a page of the program", await node.estimate(wallet.address, pages, data));
    if ((await missingPages([page], pages, node)).length > 0) throw new Failure("the node says that a page was stored, and that it was not: it lies. Nothing more is sent");
  }
}

/** What would be sent. */
async function planned({ node, verifier, from, most, rest }, { id }, { fee }, stored) {
  let [bytes, transactions] = [0, 0];
  const start = await rest();
  for (let state = start; !finished(state); transactions++) {
    const transaction = next(state, most);
    bytes += transaction.data.length / 2;
    console.log(`${transaction.about}: ${transaction.data.length / 2} bytes`);
    state = transaction.after;
  }
  if (transactions > 0 && stored) {
    const { gas, about } = await largest(start, most, (data) => node.estimate(from, verifier, data));
    console.log(`the first one, ${about}: ${gas} gas, ${formatEther(gas * fee)} ether at ${gwei(fee)} a gas`);
  }
  // The limits of bytes are those of every transaction, at 40 gas a byte and 10 a zero: no transaction costs less.
  return `${transactions} transactions or more, ${bytes} bytes; submission ${id}; nothing was sent (--send sends)`;
}

if (process.argv.slice(2).some((own) => own === "--help" || own === "-h")) console.log(USAGE);
else await main(run);
