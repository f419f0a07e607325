"""Proves the chunks of a work directory in separate worker processes, and composes the proof.

    tessera prove ... --work DIR --prepare
    python3 drive.py DIR --workers 4                  processes of this machine
    python3 drive.py DIR --workers 4 --engine ray     tasks of a Ray cluster that shares DIR and the model

A worker that dies is started again; a chunk that another process is at is waited for. Everything that decides whether
a chunk is proved is in `tessera prove-chunk`, which may be called any number of times.
"""

import argparse
import concurrent.futures
import ctypes
import json
import signal
import subprocess
import sys
import time

BUSY = "is being proved by another process"


def end_with_parent():
    """The kernel ends a worker whose parent is killed (Linux), so that its chunk is free for another one."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


def tessera(command, *arguments):
    """Runs `tessera --json`; returns the exit status and its one object, or its end."""
    done = subprocess.run(
        [command, *arguments, "--json", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
        check=False,
    )
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError:
        return done.returncode, {"error": done.stderr.strip() or f"ended with status {done.returncode}"}


def prove_chunk(command, work, chunk, arguments, retries):
    """Proves a chunk, however often it takes; returns its number and the number of failures."""
    failures = 0
    while True:
        status, result = tessera(command, "prove-chunk", "--work", work, "--chunk", str(chunk), *arguments)
        if status == 0:
            return chunk, failures
        error = result.get("error", "")
        if BUSY in error:
            time.sleep(0.5)
            continue
        failures += 1
        print(f"chunk {chunk}: {error}", file=sys.stderr, flush=True)
        # A worker that was killed may have better luck; one that says why it cannot has not.
        if status == 2 or failures > retries:
            raise RuntimeError(f"chunk {chunk}: {error}")


def with_processes(jobs, workers):
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(prove_chunk, *job) for job in jobs]
        for future in concurrent.futures.as_completed(futures):
            yield future.result()


def with_ray(jobs, workers, retries):
    import ray

    ray.init(num_cpus=workers, log_to_driver=True, include_dashboard=False, ignore_reinit_error=True)
    # A worker of Ray's that dies takes its task with it; Ray starts the task again elsewhere.
    task = ray.remote(num_cpus=1, max_retries=retries)(prove_chunk)
    pending = [task.remote(*job) for job in jobs]
    while pending:
        done, pending = ray.wait(pending)
        yield from ray.get(done)
    ray.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", help="work directory with a job")
    parser.add_argument("--engine", choices=["processes", "ray"], default="processes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--retries", type=int, default=3, help="how often a chunk may fail")
    parser.add_argument("--tessera", default="tessera", help="the program")
    parser.epilog = "What follows -- goes to every prove-chunk, such as: -- --threads 1 --memory 2GiB"
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options, arguments = parser.parse_args(words[:split]), words[split + 1 :]

    status, job = tessera(options.tessera, "status", options.work)
    if status != 0:
        sys.exit(f"error: {job['error']}")
    damaged = [c["checkpoint"]["error"] for c in job["chunks"] if c["state"] == "damaged"]
    if damaged:
        sys.exit("error: " + "\n".join(damaged))
    left = [c["chunk"] for c in job["chunks"] if c["state"] != "done"]
    jobs = [(options.tessera, options.work, chunk, arguments, options.retries) for chunk in left]
    proved = with_ray(jobs, options.workers, options.retries) if options.engine == "ray" else with_processes(
        jobs, options.workers
    )
    done = len(job["chunks"]) - len(left)
    try:
        for chunk, failures in proved:
            done += 1
            again = f" after {failures} failures" if failures else ""
            print(f"chunk {chunk}: proved{again}, {done} of {len(job['chunks'])}", flush=True)
    except RuntimeError as error:
        sys.exit(f"error: {error}")
    status, proof = tessera(options.tessera, "compose", options.work)
    if status != 0:
        sys.exit(f"error: {proof['error']}")
    print(f"{proof['proof']}: {proof['proof_bytes']} bytes, {proof['chunks']} chunks")


if __name__ == "__main__":
    main()
