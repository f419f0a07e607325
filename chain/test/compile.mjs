// Contracts, compiled by solc as it is in npm: no download, no configuration elsewhere.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
// solc takes its output for a module of older times.
const solc = createRequire(import.meta.url)("solc");

/** The contracts of a file of this folder, compiled once. */
const compiled = new Map();
function contracts(file) {
  if (compiled.has(file)) return compiled.get(file);
  const sources = { [file]: { content: readFileSync(join(root, file), "utf8") } };
  const input = {
    language: "Solidity",
    sources,
    settings: {
      optimizer: { enabled: true, runs: 1_000_000 },
      evmVersion: "osaka",
      outputSelection: { "*": { "*": ["evm.bytecode.object", "evm.deployedBytecode.object", "evm.methodIdentifiers"] } },
    },
  };
  const read = (path) => ({ contents: readFileSync(join(root, relative(".", path)), "utf8") });
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }));
  // Harnesses have many functions in one contract, and are deployed nowhere else: more code than a chain takes is no problem (5574, 3860).
  const problems = (output.errors ?? []).filter((p) => !["5574", "3860"].includes(p.errorCode));
  if (problems.length > 0) throw new Error(problems.map((p) => p.formattedMessage).join("\n"));
  compiled.set(file, output.contracts[file]);
  return output.contracts[file];
}

/** Compiles a file of this folder; returns bytecode and selectors of the contract of this name. */
export function compile(file, contract) {
  const { evm } = contracts(file)[contract];
  const selectors = Object.fromEntries(
    Object.entries(evm.methodIdentifiers).map(([signature, selector]) => [signature.split("(")[0], selector]),
  );
  return { code: `0x${evm.bytecode.object}`, size: evm.deployedBytecode.object.length / 2, selectors };
}
