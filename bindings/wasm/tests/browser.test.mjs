// The page in a real browser, opened as a file, without any network: CHROMIUM names the program, TESSERA_SCREENSHOT a picture.
import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import puppeteer from "puppeteer-core";

import { demo, npm, policies, revealed, table } from "./table.mjs";

const work = mkdtempSync(`${tmpdir()}/tessera-page-`);
const [key, story, changed] = [`${demo}/model/model.key`, `${demo}/story.proof`, `${work}/changed.proof`];
let browser, page;
const problems = [];

before(async () => {
  const bytes = readFileSync(story);
  bytes[bytes.length >> 1] ^= 1;
  writeFileSync(changed, bytes);
  // As root there is no sandbox; a container has a small /dev/shm.
  const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];
  browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
  page = await browser.newPage();
  await page.setOfflineMode(true);
  await page.setViewport({ width: 900, height: 1100 });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => {
    if (!/^(file|blob|data):/.test(request.url())) problems.push(`asks for ${request.url()}`);
  });
  copyFileSync(`${npm}/verify.html`, `${work}/verify.html`);
  await page.goto(pathToFileURL(`${work}/verify.html`).href);
});

after(async () => {
  await browser?.close();
  rmSync(work, { recursive: true });
});

/** Drags files from outside of the browser onto the page. */
async function drop(files) {
  await page.evaluate(() => scrollTo(0, 0));
  const box = await (await page.$("#drop")).boundingBox();
  const data = { items: [], files, dragOperationsMask: 1 };
  const client = await page.createCDPSession();
  for (const type of ["dragEnter", "dragOver", "drop"]) {
    await client.send("Input.dispatchDragEvent", { type, x: box.x + box.width / 2, y: box.y + box.height / 2, data });
  }
  await client.detach();
}

async function finished() {
  const done = () => document.getElementById("status").textContent.startsWith("Done.");
  await page.waitForFunction(done, { timeout: 120_000, polling: 100 });
}

const cards = () =>
  page.$$eval("#results > section", (all) =>
    all.map((card) => ({
      verdict: card.dataset.verdict,
      seconds: Number(card.dataset.seconds),
      text: card.innerText,
      fields: Object.fromEntries([...card.querySelectorAll("dd")].map((dd) => [dd.dataset.field, dd.textContent])),
    })),
  );

test("dropped files are verified, and what is proved is shown", async () => {
  await drop([story, changed]);
  await page.waitForFunction(() => document.getElementById("status").textContent.includes("wait for a model key"));
  await drop([key]);
  await finished();
  const [accepted, rejected, ...more] = await cards();
  assert.deepEqual([accepted.verdict, rejected.verdict, more], ["accept", "reject", []]);
  const { fields } = accepted;
  assert.equal(fields.prompt, '<|start_story|> "Once upon a time"');
  assert.match(fields.output, /^", a little girl/);
  assert.match(fields.security, /^9\d\.\d bits, proven$/);
  assert.equal(fields.end, "cut after 59 tokens");
  // A claim of the key's maker never stands beside a verdict.
  assert.equal(fields.fidelity, undefined);
  assert.doesNotMatch(accepted.text, /faithful|fidelity/i);
  assert.match(await page.$eval("#key [data-claim=fidelity]", (e) => e.textContent), /^Fidelity.* as whoever made the key says.*: faithful: /);
  assert.match(fields.model, /^[0-9a-f]{64}$/);
  assert.ok(rejected.fields.reason.length > 10 && rejected.fields.output === undefined);
  console.log(`verified in ${Math.round(accepted.seconds * 1000)} ms`);
  if (process.env.TESSERA_SCREENSHOT) await page.screenshot({ path: process.env.TESSERA_SCREENSHOT, fullPage: true });
});

test("the verdicts on golden and tampered proofs are the golden ones", async () => {
  const input = await page.$("#files");
  for (const { key, proofs } of table) {
    await page.$eval("#status", (status) => (status.textContent = ""));
    await input.uploadFile(key, ...proofs.map(({ path }) => path));
    await finished();
    const shown = await cards();
    assert.equal(shown.length, proofs.length);
    for (const [i, { name, words, other }] of proofs.entries()) {
      const expected = other ? "undecided" : words === "accepted" ? "accept" : "reject";
      assert.equal(shown[i].verdict, expected, name);
      // On a page there are no line ends.
      if (expected === "reject") assert.equal(shown[i].fields.reason, words.replaceAll("\n", "\\n"), name);
      if (other) assert.match(shown[i].fields.reason, /is the key of another model/, name);
    }
  }
});

test("reveals that are dropped are shown with their proof, whenever they come", async () => {
  const input = await page.$("#files");
  const upload = async (...files) => {
    await page.$eval("#status", (status) => (status.textContent = ""));
    await input.uploadFile(...files);
    await finished();
    return cards();
  };
  const [honest, ...changed] = revealed.reveals;
  const [hidden] = await upload(revealed.key, revealed.proof);
  assert.equal(hidden.verdict, "accept");
  assert.equal(hidden.fields.revealed, undefined);
  assert.match(hidden.text, /\(hidden\)/);
  const [shown, ...more] = await upload(honest.path);
  assert.deepEqual([shown.verdict, more], ["accept", []]);
  assert.match(shown.fields.revealed, /^4 ids, by 1 reveal/);
  // Of another proof, and of this one but changed.
  const other = changed.find(({ name }) => name === "proof");
  const [still, unused] = await upload(other.path);
  assert.deepEqual([still.verdict, unused.verdict], ["accept", "undecided"]);
  assert.match(unused.fields.reason, /no reveal of ids that one of these proofs hides/);
  const { path, words } = changed.find(({ name }) => name === "a row");
  const [refused] = await upload(revealed.key, revealed.proof, path);
  assert.deepEqual([refused.verdict, refused.fields.reason], ["reject", words]);
});

/** Fills the form in as somebody does who types. */
async function expect(policy) {
  await page.evaluate((policy) => {
    document.getElementById("expected").reset();
    document.getElementById("policy").open = true;
    for (const [name, value] of Object.entries(policy)) {
      const [first, second] = [document.getElementById(`own-${name}`), document.getElementById(`own-${name}-2`)];
      if (value === true) first.checked = true;
      else if (second) [first.value, second.value] = value;
      else first.value = typeof value === "string" ? value : JSON.stringify(value);
    }
  }, policy);
}

test("every case of the policies has the verdict of the table", async () => {
  const labels = JSON.parse(await page.evaluate(() => JSON.stringify(Object.fromEntries([...document.querySelectorAll("#expected label")].map((l) => [l.htmlFor.slice(4), l.textContent])))));
  const camel = (name) => name.replaceAll(/-([a-z])/g, (_, letter) => letter.toUpperCase());
  const input = await page.$("#files");
  let compared = 0;
  for (const own of policies((name) => `"${labels[camel(name)]}"`)) {
    // A field of a page takes no carriage return: for such a prompt there are ids.
    if (JSON.stringify(own.policy).includes("\\r")) continue;
    // A key among the proofs is taken for the key.
    if (own.proof.endsWith(".key")) continue;
    compared += 1;
    await expect(own.policy);
    await page.$eval("#status", (status) => (status.textContent = ""));
    // A key that is there stays, so that its proofs are verified one after the other.
    await input.uploadFile(own.key, own.proof);
    await finished();
    const [shown] = (await cards()).slice(-1);
    assert.equal(shown.verdict, ["accept", "reject", "undecided"][own.status], own.name);
    // Of another model, the page calls the key otherwise.
    const line = (text) => text?.replaceAll("\n", "\\n").replace(/, \S+ is the key of/, ", the key is the key of");
    assert.equal(shown.fields.reason, line(own.error ?? own.reason), own.name);
    assert.equal(shown.fields.help, line(own.help), own.name);
    const warned = await page.$$eval("#results > section:last-child .warning", (all) => all.map((e) => e.textContent));
    assert.deepEqual(warned, own.warnings.map((text) => `Warning: ${text}`), own.name);
    const met = Object.values(own.met ?? {}).map((met) => (met ? "as expected" : "NOT as expected"));
    assert.deepEqual((shown.fields.expected ?? "").split(", ").filter(Boolean).map((text) => text.replace(/^.*?(NOT )?as expected$/, "$1as expected")).sort(), met.sort(), own.name);
    assert.equal(await page.$$eval("#results script", (all) => all.length), 0);
  }
  assert.ok(compared >= 70, `${compared}`);
  await expect({});
});

test("proofs are verified again when something else is expected", async () => {
  const own = policies((name) => name).find(({ name }) => name === "a chat has the expected system message");
  const input = await page.$("#files");
  await page.$eval("#status", (status) => (status.textContent = ""));
  await input.uploadFile(own.key, own.proof);
  await finished();
  const said = () => page.$$eval(".turns li", (all) => all.map((li) => [li.dataset.role, li.querySelector("b").textContent, li.querySelector("div").textContent]));
  assert.deepEqual((await said()).slice(0, 2), [["system", "system", "Be good."], ["user", "user", "Why?"]]);
  assert.match((await said())[2][1], /^assistant . generated$/);
  const verdict = async () => (await cards()).map(({ verdict }) => verdict);
  assert.deepEqual(await verdict(), ["accept"]);
  await page.type("#own-expectOutput", "something else");
  await page.$eval("#own-expectOutput", (e) => e.blur());
  await page.waitForSelector("#results > section.reject");
  assert.deepEqual(await verdict(), ["reject"]);
  if (process.env.TESSERA_SCREENSHOT) await pictures("expected");
  await page.click("#clear");
  await page.waitForSelector("#results > section.accept");
  assert.deepEqual(await verdict(), ["accept"]);
  if (process.env.TESSERA_SCREENSHOT) await pictures("conversation");
});

/** Pictures at a normal and at a narrow width. */
async function pictures(name) {
  for (const width of [900, 360]) {
    await page.setViewport({ width, height: 1100 });
    await page.screenshot({ path: process.env.TESSERA_SCREENSHOT.replace(/(\.png)?$/, `-${name}-${width}.png`), fullPage: true });
  }
  await page.setViewport({ width: 900, height: 1100 });
}

test("nothing is wider than a narrow window", async () => {
  const own = policies((name) => name).find(({ name }) => name === "the prompt would forge lines, and is expected");
  await page.setViewport({ width: 360, height: 1100 });
  await page.$eval("#status", (status) => (status.textContent = ""));
  await (await page.$("#files")).uploadFile(own.key, own.proof);
  await finished();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  if (process.env.TESSERA_SCREENSHOT) await pictures("hostile");
  await page.setViewport({ width: 900, height: 1100 });
});

test("what is no key is said, and nothing is verified with it", async () => {
  writeFileSync(`${work}/broken.key`, readFileSync(key).subarray(0, 5000));
  await page.$eval("#status", (status) => (status.textContent = ""));
  await drop([`${work}/broken.key`, story]);
  await page.waitForSelector("#key > section.undecided");
  assert.match(await page.$eval("#key", (e) => e.innerText), /No usable key.*\n?.*model key file ends early/s);
  assert.deepEqual(await cards(), []);
});

test("the page asks nobody for anything, and has no errors", () => assert.deepEqual(problems, []));
