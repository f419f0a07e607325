// A node in front of another one, which lies, lags, refuses or falls silent.
import { createServer } from "node:http";

/**
 * Starts it. `lie(method, params, forward, body)` answers a request: with a result, by `forward(method, params)`, which asks the real node, or
 * by throwing: `{ status }` is a status of HTTP, `{ silent: true }` no answer at all, anything else an error of JSON-RPC.
 */
export async function proxy(node, lie) {
  const forward = (method, params) => node.rpc(method, ...params);
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const { id, method, params } = JSON.parse(text);
    const answer = (own) => response.setHeader("content-type", "application/json").end(JSON.stringify({ jsonrpc: "2.0", id, ...own }));
    try {
      answer({ result: await lie(method, params, forward, request) });
    } catch (error) {
      if (error.silent) return;
      if (error.status) return void response.writeHead(error.status).end("{}");
      answer({ error: { code: error.data ? 3 : -32000, message: error.message, data: error.data } });
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  return { host: `127.0.0.1:${port}`, url: `http://127.0.0.1:${port}`, stop: () => (server.closeAllConnections(), server.close()) };
}
