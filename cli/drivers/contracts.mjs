#!/usr/bin/env node
// Deploys the contracts (docs/chain.md), and compares those of a chain with their sources.
//
//   node cli/drivers/contracts.mjs deploy --rpc URL [--send --chain-id N --max-total ETHER]
//   node cli/drivers/contracts.mjs check --rpc URL --verifier ADDRESS
import { libraries } from "./libraries.mjs";

const { Failure, HELP, address, checked, deployed, fees, formatEther, limits, main, node: connect, options, sender: open, size } = await libraries();

const USAGE = `usage: contracts.mjs deploy [OPTIONS]
       contracts.mjs check --verifier ADDRESS [OPTIONS]

${HELP}`;

async function run(args) {
  const { values, positionals } = options(args);
  const [command, ...more] = positionals;
  if (!["deploy", "check"].includes(command) || more.length > 0) throw new Failure("deploy or check is expected; contracts.mjs --help");
  const node = connect(values);
  if (command === "check") {
    if (values.send) throw new Failure("check sends nothing");
    await open(values, node);
    const found = await checked(node, address(values, "verifier"));
    for (const [name, where] of Object.entries(found)) console.log(`${name}: ${where}`);
    return console.log("the code of all contracts is that of the sources, compiled here");
  }
  const sender = await open(values, node);
  if (sender) return console.log(`the verifier is at ${await deployed(sender)}; spent: ${sender.gas} gas`);
  const { count, gas } = size();
  const { fee } = await fees(node, limits(values));
  return console.log(`${count} contracts, about ${gas} gas, at most ${formatEther(gas * fee)} ether; nothing was sent (--send sends)`);
}

if (process.argv.slice(2).some((own) => own === "--help" || own === "-h")) console.log(USAGE);
else await main(run);
