#!/usr/bin/env python3
"""Builds the npm package and the page of the verifier for browsers.

    python3 bindings/wasm/build.py OUT [--wasm-bindgen BINARY]

OUT gets the npm package: index.js and index.d.ts, the module, and verify.html, which works on its own from a file. Needs the
target wasm32-unknown-unknown, and wasm-bindgen of the version in Cargo.lock.
"""

import argparse
import base64
import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODULE = "target/wasm32-unknown-unknown/release/tessera_wasm.wasm"
LIMIT = 2_000_000  # bytes, compressed


def build(binding: str, out: pathlib.Path) -> None:
    # The verifier needs neither unstable features nor the host's processor.
    env = {k: v for k, v in os.environ.items() if k != "CARGO_ENCODED_RUSTFLAGS"}
    env |= {"RUSTC_BOOTSTRAP": "-1", "RUSTFLAGS": ""}
    build = ["cargo", "build", "--locked", "--release", "--target", "wasm32-unknown-unknown"]
    subprocess.run([*build, "--target-dir", HERE / "target"], cwd=HERE, env=env, check=True)
    shutil.copytree(HERE / "npm", out, dirs_exist_ok=True)
    shutil.copy(HERE / "../../LICENSE", out)
    bind = [binding, HERE / MODULE, "--remove-name-section", "--remove-producers-section"]
    subprocess.run(
        [*bind, "--no-typescript", "--target", "web", "--experimental-reset-state-function", "--out-dir", out],
        check=True,
    )
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run([*bind, "--no-typescript", "--target", "no-modules", "--out-dir", temporary], check=True)
        glue = pathlib.Path(temporary, "tessera_wasm.js").read_text()
        module = pathlib.Path(temporary, "tessera_wasm_bg.wasm").read_bytes()
    if "</script" in glue:
        sys.exit("the glue cannot stand inside of a page")
    page = (HERE / "page/verify.html").read_text()
    page = page.replace("/*GLUE*/", glue, 1).replace("/*WASM*/", base64.b64encode(module).decode(), 1)
    (out / "verify.html").write_text(page)
    size = len(gzip.compress((out / "tessera_wasm_bg.wasm").read_bytes(), 9))
    print(f"module {(out / 'tessera_wasm_bg.wasm').stat().st_size} bytes, {size} compressed; page {len(page)} bytes")
    if size > LIMIT:
        sys.exit(f"the module has {size} bytes compressed, more than {LIMIT}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--wasm-bindgen", default="wasm-bindgen")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    build(args.wasm_bindgen, args.out)


if __name__ == "__main__":
    main()
