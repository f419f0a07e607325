// The npm package in Node.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { demo, npm, table } from "./table.mjs";

const tessera = await import(`${npm}/index.js`);

test("nothing is decided before the verifier is loaded", async () => {
  assert.throws(() => new tessera.Key(new Uint8Array()), /await load\(\) first/);
  await tessera.load();
});

test("the verdicts on golden and tampered proofs are the golden ones", () => {
  for (const { key, proofs } of table) {
    const own = new tessera.Key(readFileSync(key));
    for (const { name, path, words, other } of proofs) {
      const proof = readFileSync(path);
      if (other) {
        assert.throws(() => own.verify(proof), (e) => e instanceof tessera.TesseraError && /is the key of another model/.test(e.message));
        continue;
      }
      const verdict = own.verify(proof);
      assert.equal(verdict.verdict, words === "accepted" ? "accept" : "reject", name);
      assert.equal(verdict.reason ?? "accepted", words, name);
    }
  }
});

test("what is proved can be read, and what is expected decides", () => {
  const key = new tessera.Key(readFileSync(`${demo}/model/model.key`));
  const proof = readFileSync(`${demo}/story.proof`);
  const verdict = key.verify(proof);
  assert.equal(verdict.verdict, "accept");
  assert.equal(verdict.prompt_text, "Once upon a time");
  assert.match(verdict.shown.prompt, /^<\|start_story\|> "Once upon a time"$/);
  assert.ok(verdict.security_bits >= 90);
  assert.equal(key.describe().recipe.fidelity.class, "faithful");
  assert.equal(key.verify(proof, { promptIds: verdict.prompt_ids, outputText: verdict.output_text }).verdict, "accept");
  const other = key.verify(proof, { outputIds: [1, 2] });
  assert.deepEqual([other.verdict, other.output_ids], ["reject", verdict.output_ids]);
  assert.match(other.reason, /the output is not the expected one/);
  assert.equal(tessera.describeProof(proof).verified, false);
});

test("what is no key or proof is said, whatever the bytes are", () => {
  const key = readFileSync(`${demo}/model/model.key`);
  for (const bytes of [new Uint8Array(), new Uint8Array(100), readFileSync(`${demo}/story.proof`), key.subarray(0, 5000)]) {
    assert.throws(() => new tessera.Key(bytes), tessera.TesseraError);
  }
  assert.match(tessera.verify(key, key).reason, /is a model key, not a proof/);
  // A length of 2^64 - 1, and one of 2^32, which a 32-bit host must not take for 0.
  for (const length of [0xffffffffffffffffn, 0x100000000n]) {
    const proof = readFileSync(`${demo}/story.proof`);
    proof.writeBigUInt64LE(length, 8 + 4 + 32);
    const { verdict, reason } = tessera.verify(key, proof);
    assert.deepEqual([verdict, reason], ["reject", "malformed proof: proof file ends early"]);
  }
});

test("after a trap nothing is decided, and the next proof is verified by a new instance", () => {
  const key = new tessera.Key(readFileSync(`${demo}/model/model.key`));
  const proof = readFileSync(`${demo}/story.proof`);
  const name = {
    get length() {
      throw new WebAssembly.RuntimeError("unreachable");
    },
  };
  assert.throws(() => key.verify(proof, { name }), (e) => e instanceof tessera.TesseraError && /internal error.*unreachable/.test(e.message));
  assert.equal(key.verify(proof).verdict, "accept");
});
