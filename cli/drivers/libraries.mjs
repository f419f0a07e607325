// The libraries of the folder chain, for the commands here.
const NAMES = ["cli", "code", "encoding", "packed", "proof", "rpc", "selectors", "sender"];

/** All that they export, by name. Ends the program if they are not installed. */
export async function libraries() {
  try {
    return Object.assign({}, ...(await Promise.all(NAMES.map((name) => import(new URL(`../../chain/lib/${name}.mjs`, import.meta.url))))));
  } catch (error) {
    if (!/MODULE_NOT_FOUND/.test(error.code)) throw error;
    console.error("its libraries are missing: npm ci --ignore-scripts in the folder chain");
    return process.exit(2);
  }
}
