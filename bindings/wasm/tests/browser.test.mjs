// The page in a real browser, opened as a file, without any network: CHROMIUM names the program, TESSERA_SCREENSHOT a picture.
import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import puppeteer from "puppeteer-core";

import { demo, npm, table } from "./table.mjs";

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
  assert.match(fields.fidelity, /^faithful: /);
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

test("what is no key is said, and nothing is verified with it", async () => {
  writeFileSync(`${work}/broken.key`, readFileSync(key).subarray(0, 5000));
  await page.$eval("#status", (status) => (status.textContent = ""));
  await drop([`${work}/broken.key`, story]);
  await page.waitForSelector("#key > section.undecided");
  assert.match(await page.$eval("#key", (e) => e.innerText), /No usable key.*\n?.*model key file ends early/s);
  assert.deepEqual(await cards(), []);
});

test("the page asks nobody for anything, and has no errors", () => assert.deepEqual(problems, []));
