// The npm package in Node.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

import { demo, inJavaScript, npm, policies, revealed, table } from "./table.mjs";

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

test("reveals say ids that a proof hides, and tampered ones are refused", () => {
  const own = new tessera.Key(readFileSync(revealed.key));
  const proof = readFileSync(revealed.proof);
  const hidden = own.verify(proof);
  assert.deepEqual([hidden.verdict, hidden.revealed, hidden.reveals_left], ["accept", [], 2]);
  assert.ok(hidden.output_ids.every((id) => id === null));
  for (const { name, words, path } of revealed.reveals) {
    const verdict = own.verify(proof, { reveals: [readFileSync(path)] });
    assert.equal(verdict.reason ?? "accepted", words, name);
    if (words !== "accepted") continue;
    assert.ok(verdict.output_ids.every((id) => Number.isInteger(id)) && verdict.prompt_ids.includes(null));
    assert.deepEqual([verdict.reveals_left, verdict.hidden.output, verdict.hidden.prompt], [1, false, true]);
    assert.deepEqual(own.verify(proof, { reveals: [readFileSync(path), readFileSync(path)] }).output_ids, verdict.output_ids);
  }
  assert.throws(() => own.verify(proof, { reveals: proof }), (e) => e instanceof TypeError && /options.reveals has to be an array of reveals/.test(e.message));
  assert.throws(() => own.verify(proof, { reveals: ["a"] }), (e) => e instanceof TypeError && /options.reveals\[0\]/.test(e.message));
  assert.match(own.verify(readFileSync(revealed.reveals[0].path)).reason, /is a reveal, not a proof/);
});

test("every case of the policies has the verdict of the table", () => {
  const keys = new Map();
  for (const own of policies(inJavaScript)) {
    if (!keys.has(own.key)) keys.set(own.key, new tessera.Key(readFileSync(own.key)));
    const name = own.proof.split("/").pop();
    const judge = () => keys.get(own.key).verify(readFileSync(own.proof), { ...own.policy, name });
    if (own.status === 2) {
      const message = own.error.replace(/, \S+ is the key of/, ", the key is the key of");
      assert.throws(judge, (e) => { assert.deepEqual([e.name, e.message], ["TesseraError", message], own.name); return true; });
      continue;
    }
    const { verdict, reason, help, warnings, policy } = judge();
    assert.deepEqual([verdict, reason, help], [own.status ? "reject" : "accept", own.reason, own.help], own.name);
    assert.deepEqual(warnings ?? [], own.warnings, own.name);
    assert.deepEqual(policy && Object.fromEntries(Object.entries(policy).map(([aspect, { met }]) => [aspect, met])), own.met, own.name);
  }
});

test("the types know every option, and no other", () => {
  const types = readFileSync(`${npm}/index.d.ts`, "utf8").match(/export interface Options \{(.*?)\n\}/s)[1];
  const typed = [...types.matchAll(/^  (\w+)\?:/gm)].map(([, name]) => name).sort();
  try {
    tessera.verify(readFileSync(`${demo}/model/model.key`), new Uint8Array(), { unheard: 1 });
    assert.fail("an option that there is not is refused");
  } catch (error) {
    assert.deepEqual(error.message.split("there are ")[1].split(", ").sort(), typed);
  }
});

test("a conversation is shown as one", () => {
  const own = policies(inJavaScript).find(({ name }) => name === "a chat has the expected system message");
  const { shown } = tessera.verify(readFileSync(own.key), readFileSync(own.proof));
  assert.deepEqual(shown.conversation.slice(0, 2), [
    { role: "system", text: "Be good.", generated: false },
    { role: "user", text: "Why?", generated: false },
  ]);
  assert.deepEqual([shown.conversation[2].role, shown.conversation[2].generated, shown.conversation.length], ["assistant", true, 3]);
});

test("what is proved can be read, and what is expected decides", () => {
  const key = new tessera.Key(readFileSync(`${demo}/model/model.key`));
  const proof = readFileSync(`${demo}/story.proof`);
  const verdict = key.verify(proof);
  assert.equal(verdict.verdict, "accept");
  assert.equal(verdict.prompt_text, "Once upon a time");
  assert.match(verdict.shown.prompt, /^<\|start_story\|> "Once upon a time"$/);
  assert.ok(verdict.security_bits >= 93.5);
  assert.equal(key.describe().recipe.fidelity.class, "faithful");
  assert.equal(key.verify(proof, { expectPromptIds: verdict.prompt_ids, expectOutput: verdict.output_text, expectPrompt: undefined }).verdict, "accept");
  const other = key.verify(proof, { expectOutputIds: [1, 2] });
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
  const { encodeInto } = TextEncoder.prototype;
  TextEncoder.prototype.encodeInto = () => {
    throw new WebAssembly.RuntimeError("unreachable");
  };
  try {
    assert.throws(() => key.verify(proof, { name: "\u00e9" }), (e) => e instanceof tessera.TesseraError && /internal error.*unreachable/.test(e.message));
  } finally {
    TextEncoder.prototype.encodeInto = encodeInto;
  }
  assert.equal(key.verify(proof).verdict, "accept");
});

// What fails is named, and nothing is verified with half of what was asked for.
const refuses = (work, field) => assert.throws(work, (e) => e instanceof TypeError && e.message.startsWith(`${field} `), field);

test("no option is misspelt without a word", () => {
  const key = new tessera.Key(readFileSync(`${demo}/model/model.key`));
  const proof = readFileSync(`${demo}/story.proof`);
  for (const option of ["expectPromptIDs", "expect_prompt", "promptIds", "outputids", "output", "__proto__x", "toString"]) {
    refuses(() => key.verify(proof, { [option]: [1, 2] }), `options.${option}`);
    refuses(() => tessera.verify(key, proof, { [option]: undefined }), `options.${option}`);
  }
  refuses(() => key.verify(proof, JSON.parse('{"__proto__": [1]}')), "options.__proto__");
  refuses(() => key.verify(proof, { [Symbol("expectPromptIds")]: [1] }), "options.Symbol(expectPromptIds)");
  for (const options of [null, 7, "expectPromptIds", [1, 2], true]) refuses(() => key.verify(proof, options), "options");
  for (const expectOutput of [7, null, ["a"], new String("a"), "a\ud800"]) refuses(() => key.verify(proof, { expectOutput }), "options.expectOutput");
  for (const chat of ["yes", 1, null]) refuses(() => key.verify(proof, { chat }), "options.chat");
  for (const minBits of ["95", NaN, 95n]) refuses(() => key.verify(proof, { minBits }), "options.minBits");
  for (const expectPair of ["ab", ["a"], ["a", "b", "c"]]) refuses(() => key.verify(proof, { expectPair }), "options.expectPair");
  refuses(() => key.verify(proof, { expectPair: ["a", 7] }), "options.expectPair[1]");
  // JSON would leave these out, or write something else.
  const lost = [[{ role: "user", content: () => 7 }], [{ role: "user", content: new Date() }], [new Map()]];
  for (const expectMessages of lost) assert.throws(() => key.verify(proof, { expectMessages }), (e) => e instanceof TypeError && e.message.startsWith("options.expectMessages"));
  refuses(() => key.verify(proof, { name: 7 }), "options.name");
  assert.equal(key.verify(proof, { expectPromptIds: undefined, name: undefined }).verdict, "accept");
});

test("no id is rounded, cut or taken from anything but a number", () => {
  const key = new tessera.Key(readFileSync(`${demo}/model/model.key`));
  const proof = readFileSync(`${demo}/story.proof`);
  const ids = key.verify(proof).prompt_ids;
  // What Uint32Array.from makes the proven ids of.
  const lossy = [ids[0] + 0.5, ids[0] + 2 ** 32, ids[0] - 2 ** 32, `${ids[0]}`, BigInt(ids[0]), [ids[0]], null, undefined, NaN, Infinity, true];
  for (const field of ["expectPromptIds", "expectOutputIds"]) {
    for (const id of lossy) refuses(() => key.verify(proof, { [field]: [id, ...ids.slice(1)] }), `options.${field}[0]`);
    refuses(() => key.verify(proof, { [field]: [...ids, , ids[0]] }), `options.${field}[${ids.length}]`);
    refuses(() => key.verify(proof, { [field]: BigUint64Array.from(ids, BigInt) }), `options.${field}[0]`);
    for (const list of [null, 7, "12", {}, { length: 1, 0: 1 }]) refuses(() => key.verify(proof, { [field]: list }), `options.${field}`);
  }
  for (const expectPromptIds of [ids, Uint32Array.from(ids), new Set(ids).size === ids.length ? new Set(ids) : ids]) {
    assert.equal(key.verify(proof, { expectPromptIds }).verdict, "accept");
  }
});

test("keys and proofs are bytes, and nothing that loses some", () => {
  const bytes = new Uint8Array(readFileSync(`${demo}/model/model.key`));
  const proof = new Uint8Array(readFileSync(`${demo}/story.proof`));
  const key = new tessera.Key(bytes);
  const lossy = (own) => [
    Uint16Array.from(own), Int8Array.from(own), Float32Array.from(own), Uint8ClampedArray.from(own), Array.from(own), Array.from(own, (b) => b + 256),
    new DataView(own.buffer), Buffer.from(own).toString("latin1"), { ...[1, 2] }, own.length, null, undefined, Promise.resolve(own),
  ];
  for (const own of lossy(bytes)) refuses(() => new tessera.Key(own), "key");
  for (const own of lossy(proof)) {
    refuses(() => key.verify(own), "proof");
    refuses(() => tessera.describeProof(own), "proof");
  }
  const detached = proof.slice();
  structuredClone(detached.buffer, { transfer: [detached.buffer] });
  refuses(() => key.verify(detached), "proof");
  refuses(() => key.verify(detached.buffer), "proof");
  // Buffers of Node, parts of a larger one, and arrays of another realm are bytes.
  const larger = new Uint8Array(proof.length + 7);
  larger.set(proof, 3);
  const foreign = runInNewContext("Uint8Array.from(own)", { own: proof });
  for (const own of [proof.buffer, Buffer.from(proof), larger.subarray(3, 3 + proof.length), foreign, foreign.buffer]) {
    assert.equal(key.verify(own).verdict, "accept");
  }
  // What the caller changes afterwards changes no key.
  const buffer = bytes.slice().buffer;
  const other = new tessera.Key(buffer);
  new Uint8Array(buffer).fill(0);
  assert.equal(other.verify(proof).verdict, "accept");
});
