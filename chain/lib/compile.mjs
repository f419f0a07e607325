// Contracts, compiled by solc as it is in npm: no download, no configuration elsewhere.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
// solc takes its output for a module of older times.
const solc = createRequire(import.meta.url)("solc");

/** What compiled contracts are kept under: all sources, this file, and the compiler. */
function digest() {
  const hash = createHash("sha256").update(solc.version()).update(readFileSync(fileURLToPath(import.meta.url)));
  for (const folder of ["contracts", "test"]) {
    for (const name of readdirSync(join(root, folder)).sort()) {
      if (name.endsWith(".sol")) hash.update(`${name}\0`).update(readFileSync(join(root, folder, name)));
    }
  }
  return hash.digest("hex").slice(0, 32);
}

/** The contracts of a file of this folder, compiled once. */
const compiled = new Map();
const build = join(root, ".build");
let sources;
function contracts(file) {
  if (compiled.has(file)) return compiled.get(file);
  sources ??= digest();
  const kept = join(build, `${sources}-${file.replaceAll("/", "-")}.json`);
  if (existsSync(kept)) {
    compiled.set(file, JSON.parse(readFileSync(kept, "utf8")));
    return compiled.get(file);
  }
  const own = compileFile(file);
  compiled.set(file, own);
  mkdirSync(build, { recursive: true });
  writeFileSync(`${kept}.${process.pid}`, JSON.stringify(own));
  renameSync(`${kept}.${process.pid}`, kept);
  return own;
}

function compileFile(file) {
  const sources = { [file]: { content: readFileSync(join(root, file), "utf8") } };
  const input = {
    language: "Solidity",
    sources,
    settings: {
      optimizer: { enabled: true, runs: 1_000_000 },
      evmVersion: "osaka",
      outputSelection: { "*": { "*": ["evm.bytecode.object", "evm.deployedBytecode.object", "evm.deployedBytecode.immutableReferences", "evm.methodIdentifiers"] } },
    },
  };
  const read = (path) => ({ contents: readFileSync(join(root, relative(".", path)), "utf8") });
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }));
  // Harnesses have many functions in one contract, and are deployed nowhere else: more code than a chain takes is no problem (5574, 3860).
  const problems = (output.errors ?? []).filter((p) => !["5574", "3860"].includes(p.errorCode));
  if (problems.length > 0) throw new Error(problems.map((p) => p.formattedMessage).join("\n"));
  return output.contracts[file];
}

/**
 * Compiles a file of this folder; returns of the contract of this name what deploys it, its run-time code with the places in it that the
 * constructor writes, and the selectors of its functions.
 */
export function compile(file, contract) {
  const { evm } = contracts(file)[contract];
  const selectors = Object.fromEntries(
    Object.entries(evm.methodIdentifiers).map(([signature, selector]) => [signature.split("(")[0], selector]),
  );
  const { object: runtime, immutableReferences: immutables } = evm.deployedBytecode;
  return { code: `0x${evm.bytecode.object}`, size: runtime.length / 2, runtime, immutables: immutables ?? {}, selectors };
}
