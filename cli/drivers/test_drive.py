"""Tests drive.py: chunks are proved in worker processes, one of which is killed; the proof is accepted.

    python3 test_drive.py MODEL_DIR [--tessera PATH] [--engine ray]
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time


def workers(work):
    """Ids of the processes that prove chunks of this work directory, and not of others that run beside this test."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"prove-chunk" in words[:2] and work.encode() in words:
                found.append(int(entry.name))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--tessera", default="tessera")
    parser.add_argument("--engine", default="processes")
    parser.add_argument("--tokens", default="24")
    options = parser.parse_args()
    drive = pathlib.Path(__file__).parent / "drive.py"

    def tessera(*arguments):
        done = subprocess.run([options.tessera, *arguments, "--json"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    with tempfile.TemporaryDirectory() as directory:
        work, proof = f"{directory}/work", f"{directory}/text.proof"
        request = ["prove", "--model", options.model, "--prompt-ids", "1,80,147", "--tokens", options.tokens, "--ignore-eos"]
        job = tessera(*request, "--out", proof, "--work", work, "--chunk-layers", "1", "--prepare")
        assert len(job["chunks"]) > 1, job
        command = [sys.executable, str(drive), work, "--tessera", options.tessera, "--engine", options.engine]
        driver = subprocess.Popen([*command, "--workers", "2", "--", "--threads", "1"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        while not (running := workers(work)):
            assert driver.poll() is None, driver.communicate()
            time.sleep(0.01)
        time.sleep(0.05)
        os.kill(running[0], signal.SIGKILL)
        output, errors = driver.communicate(timeout=600)
        print(output, end="")
        print(errors.strip()[:2000], file=sys.stderr)
        assert driver.returncode == 0, output + errors
        assert "after 1 failures" in output, output
        assert output.count(": proved") == len(job["chunks"]), output
        verdict = tessera("verify", "--key", f"{options.model}/model.key", proof)
        assert (verdict["verdict"], verdict["chunks"]) == ("accept", len(job["chunks"])), verdict
        # Nothing is left to do; composing again gives the same bytes.
        before = pathlib.Path(proof).read_bytes()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        assert pathlib.Path(proof).read_bytes() == before
    print(f"a proof of {len(job['chunks'])} chunks in separate processes, one of them killed: accepted")


if __name__ == "__main__":
    main()
