// The golden and tampered proofs with their verdicts. TESSERA_GOLDEN_PROOFS is where the test `tamper` of the prover has
// written them, TESSERA_DEMO what `tessera demo --keep` has left, TESSERA_NPM what build.py has made.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

const directory = (name) => resolve(process.env[name] ?? assert.fail(`${name} is not set`));
const json = (path) => JSON.parse(readFileSync(path));

export const npm = directory("TESSERA_NPM");
export const demo = directory("TESSERA_DEMO");
const golden = json(new URL("../../../fixtures/golden-proofs.json", import.meta.url)).verdicts;
export const table = json(`${directory("TESSERA_GOLDEN_PROOFS")}/cases.json`).map(([key, proofs], i) => ({
  key,
  proofs: proofs.map(([name, path], j) => {
    assert.equal(name, golden[i][j][0]);
    return { name, path, words: golden[i][j][1], other: golden[i][j][1].startsWith("the proof is about model") };
  }),
}));
export const number = table.reduce((sum, { proofs }) => sum + proofs.length, 0);
assert.equal(number, golden.flat().length);
assert.ok(number > 100);

// The reveals of ids that a golden proof hides, as they are and tampered with.
export const revealed = {
  key: `${directory("TESSERA_GOLDEN_PROOFS")}/reveals/model.key`,
  proof: `${directory("TESSERA_GOLDEN_PROOFS")}/reveals/hidden.proof`,
  reveals: json(new URL("../../../fixtures/golden-proofs.json", import.meta.url)).reveals.map(([name, words], i) => ({
    name,
    words,
    path: `${directory("TESSERA_GOLDEN_PROOFS")}/reveals/${i}.reveal`,
  })),
};
assert.ok(revealed.reveals.length > 20);

// The table of policies, with options as JavaScript spells them: `{--chat}` is an option, `{--chat!}` a flag that is given.
export const camel = (name) => name.replaceAll(/[-_]([a-z])/g, (_, letter) => letter.toUpperCase());
const words = (text, spelled) => text?.replaceAll(/\{--([a-z-]+)(!?)\}/g, (_, name, flag) => spelled(name, flag));
export const inJavaScript = (name, flag) => camel(name) + (flag && ": true");
export const policies = (spelled) =>
  json(new URL("../../../fixtures/policies.json", import.meta.url)).map((own) => ({
    ...own,
    key: `${directory("TESSERA_GOLDEN_PROOFS")}/policies/${own.key}`,
    proof: `${directory("TESSERA_GOLDEN_PROOFS")}/policies/${own.proof}`,
    policy: Object.fromEntries(Object.entries(own.policy).map(([name, value]) => [camel(name), value])),
    ...Object.fromEntries(["reason", "help", "error"].map((field) => [field, words(own[field], spelled)])),
    warnings: (own.warnings ?? []).map((text) => words(text, spelled)),
  }));
assert.ok(policies(inJavaScript).length >= 40);
