// What `tessera chain pack` and `tessera chain register` write, checked before anything is paid for it.
import { keccak256 } from "ethers";
import { Failure } from "./rpc.mjs";

const keccak = (hex) => keccak256(`0x${hex}`).slice(2);
const isBytes = (own) => typeof own === "string" && /^([0-9a-f]{2})*$/.test(own);
const isDigest = (own) => isBytes(own) && own.length === 64;
const isList = (own, is) => Array.isArray(own) && own.length > 0 && own.every(is);
/** Bytes of a page, at most: of a contract's code one is taken by the byte in front. */
const PAGE = 24_575;

/** Reads the text of a file. Throws unless its plan has the digest that it says, and its proof the prompt, output and context. */
export function read(text, name) {
  const must = (condition, about) => {
    if (!condition) throw new Failure(`${name}: ${about}; write it again with tessera chain`);
  };
  let own;
  try {
    own = JSON.parse(text);
  } catch {
    must(false, "no JSON");
  }
  const { plan, header, program, behind, gas, said, opening } = own ?? {};
  must(isDigest(plan) && isBytes(header) && isList(behind, isDigest), "no plan");
  must(isList(program, (pages) => isList(pages, (page) => isBytes(page) && page.length > 0 && page.length <= 2 * PAGE)), "no program");
  must(isList(gas, Number.isSafeInteger) && gas.length === program.length && behind.length === program.length + 1, "a program of other segments");
  must(/^0+$/.test(behind.at(-1)), "something behind the last segment");
  for (const [i, pages] of program.entries()) {
    must(behind[i] === keccak(keccak(pages.map((page) => keccak(`00${page}`)).join("")) + behind[i + 1]), `segment ${i + 1} has another digest`);
  }
  must(plan === keccak(keccak(header) + behind[0]), "header and program are not those of the plan");
  if (said === undefined) return own;
  must(isBytes(said) && said.length >= 88, "nothing that is said");
  must(isBytes(opening?.conversation) && isList(opening.stages, isBytes) && Number.isSafeInteger(opening.trees), "no opening");
  const [prompts, outputs] = [0, 8].map((at) => parseInt(said.slice(at, at + 8), 16));
  const ids = said.slice(88, 88 + 8 * (prompts + outputs));
  must(ids.length === 8 * (prompts + outputs), "no statement");
  const statement = [keccak(ids.slice(0, 8 * prompts)), keccak(ids.slice(8 * prompts)), said.slice(24, 88)];
  must(statement.join() === [own.prompt, own.output, own.context].join(), "another prompt, output or context than what is said");
  return own;
}
