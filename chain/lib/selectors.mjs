// Selectors of the functions of the contracts, by the names that the verifier gives to them.
import { compile } from "./compile.mjs";

/** Where the contracts that the verifier calls are, in the order of the constructor of the verifier. */
export const PARTS = [
  ["SAYING", "contracts/Phases.sol", "Saying"],
  ["OPENS", "contracts/Phases.sol", "Opens"],
  ["PAGES", "contracts/Pages.sol", "Pages"],
  ["PROGRAM", "contracts/Phases.sol", "ProgramStages"],
  ["OPENING", "contracts/Stages.sol", "OpeningStages"],
];

export function selectors() {
  const own = PARTS.map(([name, file, contract]) => [name, compile(file, contract).selectors]);
  return { ...Object.fromEntries(own), Verifier: compile("contracts/Verifier.sol", "Verifier").selectors };
}
