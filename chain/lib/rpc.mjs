// A node that is not trusted: it may lag, lie, refuse or fall silent. Requests have time-outs and are repeated with growing pauses, answers are
// checked for their form, and nothing of an answer reaches a terminal but through `shown`.

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
/** The most bytes of an answer: the largest that is asked for is the code of a page. */
const MOST = 32 << 20;

/** Text of others for a terminal: one line of printable ASCII, not too long. */
export function shown(text) {
  const own = String(text);
  const line = own.slice(0, 300).replace(/[^\x20-\x7e]/g, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  return own.length > 300 ? `${line}...` : line;
}

/** What goes wrong for good: said, and the program ends. */
export class Failure extends Error {
  final = true;
}

/** What a node answers instead of a result; `said` is its own text. */
export class Refused extends Error {
  constructor(method, said) {
    super(`the node refuses ${method}: ${shown(said)}`);
    this.said = String(said);
  }
}

/** Answers of a node that does not have a block yet. */
const LAGGING = /header not found|unknown block|block not found|block.{0,40}(does not exist|out of range)|BlockOutOfRange|missing trie node/i;

const forms = { quantity: /^0x[0-9a-f]{1,64}$/i, data: /^0x([0-9a-f]{2})*$/i };

export class Node {
  /** `url` may have a name and a password. `timeout` is in milliseconds: how long one thing is asked for before that is given up. */
  constructor(url, timeout) {
    const own = new URL(url);
    this.headers = { "content-type": "application/json" };
    if (own.username || own.password) {
      const credentials = `${decodeURIComponent(own.username)}:${decodeURIComponent(own.password)}`;
      this.headers.authorization = `Basic ${Buffer.from(credentials).toString("base64")}`;
      [own.username, own.password] = ["", ""];
    }
    // All that may be shown: what is behind the host may be a secret.
    this.name = shown(own.origin);
    this.timeout = timeout;
    this.url = own;
    this.count = 0;
    /** The block that is read: the latest one, or that of the last receipt. A node that lags does not have it, and says so. */
    this.block = "latest";
  }

  /** A result, or null. */
  async ask(method, ...params) {
    const deadline = Date.now() + this.timeout;
    let why = "it does not answer";
    for (let pause = 200; ; pause = Math.min(2 * pause, 5_000)) {
      try {
        return await this.once(method, params, deadline);
      } catch (error) {
        if (error instanceof Failure || (error instanceof Refused && !LAGGING.test(error.said))) throw error;
        // What the library says of an address may have a secret in it.
        why = error instanceof Refused ? error.message : (error.why ?? `no connection (${shown(error.cause?.code ?? error.name)})`);
      }
      if (Date.now() + pause > deadline) throw new Failure(`the node at ${this.name} was asked for ${method} for ${this.timeout / 1000} s: ${why}`);
      await wait(pause);
    }
  }

  async once(method, params, deadline) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: ++this.count, method, params });
    const signal = AbortSignal.timeout(Math.max(1, Math.min(30_000, deadline - Date.now())));
    const answer = await fetch(this.url, { method: "POST", headers: this.headers, body, signal, redirect: "error" });
    if (answer.status === 401 || answer.status === 403) throw new Failure(`the node at ${this.name} refuses the credentials: HTTP ${answer.status}`);
    if (answer.status === 429 || answer.status >= 500) throw Object.assign(new Error(), { why: `HTTP ${answer.status}` });
    let parsed;
    try {
      parsed = JSON.parse(await limited(answer));
    } catch (error) {
      if (error.name === "TimeoutError" || error.name === "AbortError") throw error;
      throw new Failure(`the node at ${this.name} answers ${method} with HTTP ${answer.status} and what is no JSON`);
    }
    if (parsed?.error) throw new Refused(method, parsed.error.message ?? "without a reason");
    if (parsed === null || typeof parsed !== "object" || !("result" in parsed)) throw new Failure(`the node at ${this.name} answers ${method} with neither result nor error`);
    return parsed.result;
  }

  /** A result of a form: of numbers their value, of bytes hexadecimal digits without "0x". */
  async formed(form, method, ...params) {
    const result = await this.ask(method, ...params);
    return this.read(form, result, method);
  }

  read(form, result, about) {
    if (typeof result !== "string" || !forms[form].test(result)) throw new Failure(`the node at ${this.name} answers ${about} with what is no ${form}`);
    return form === "quantity" ? BigInt(result) : result.slice(2).toLowerCase();
  }

  chainId() {
    return this.formed("quantity", "eth_chainId");
  }

  call(to, data) {
    return this.formed("data", "eth_call", { to, data: `0x${data}` }, this.block);
  }

  code(address) {
    return this.formed("data", "eth_getCode", address, this.block);
  }

  estimate(from, to, data) {
    return this.formed("quantity", "eth_estimateGas", { from, to, data: `0x${data}` }, this.block);
  }

  transactions(address, block) {
    return this.formed("quantity", "eth_getTransactionCount", address, block);
  }

  /** What a unit of gas costs now, and what the node says that is paid for being quick. */
  async fees() {
    const block = await this.ask("eth_getBlockByNumber", "latest", false);
    const base = this.read("quantity", block?.baseFeePerGas, "eth_getBlockByNumber");
    return { base, tip: await this.formed("quantity", "eth_maxPriorityFeePerGas") };
  }

  /** Sends a signed transaction, again from time to time, until there is a receipt of it. */
  async deliver(raw, hash) {
    const deadline = Date.now() + this.timeout;
    let refused = null;
    const send = () => this.ask("eth_sendRawTransaction", raw).catch((error) => {
      if (!(error instanceof Refused)) throw error;
      refused ??= error;
    });
    await send();
    for (let pause = 100, tries = 1; ; pause = Math.min(1.5 * pause, 4_000), tries++) {
      const receipt = await this.ask("eth_getTransactionReceipt", hash);
      if (receipt) return this.receipt(receipt, hash);
      // What is known already, or was mined before, is refused and has a receipt.
      if (refused && tries > 4) throw new Failure(`${refused.message}; transaction ${hash} may be mined all the same`);
      if (Date.now() + pause > deadline) {
        throw new Failure(`transaction ${hash} has had no receipt for ${this.timeout / 1000} s; it may still be mined. The same command goes on then`);
      }
      await wait(pause);
      if (tries % 8 === 0) await send();
    }
  }

  receipt(own, hash) {
    if (own.transactionHash !== hash) throw new Failure(`the node at ${this.name} answers with the receipt of another transaction than ${hash}`);
    const [status, gas, block] = ["status", "gasUsed", "blockNumber"].map((name) => this.read("quantity", own[name], "eth_getTransactionReceipt"));
    return { done: status === 1n, gas, block: `0x${block.toString(16)}` };
  }
}

/** The body of an answer, if it is not too long. */
async function limited(answer) {
  const parts = [];
  let size = 0;
  for await (const part of answer.body ?? []) {
    size += part.length;
    if (size > MOST) throw new Error("too long");
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}
