"""Where the time of a small build on Flink goes, step by step, beside the same build on this machine.

    python benchmarks/flink_start.py --images=200 --runs=3      prints a table, the fastest of the runs
    python benchmarks/flink_start.py --job_server=JAR           the same with Beam's jar among the cluster's libraries

A cluster of two task managers with one slot each runs on this machine, with the settings of `deploy/flink/builds.yaml`.
The first build on a cluster also loads classes in its JVMs, so it is shown apart.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from PIL import Image

_PROJECT = pathlib.Path(__file__).resolve().parent.parent
_SCRIPT = _PROJECT / "deploy/flink/local-cluster.sh"
# A build in a process of its own, which prints the times of its steps.
_CHILD = "--child"


def main() -> None:
    """Runs the builds and prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--job_server", help="jar to add to the libraries of the cluster")
    parser.add_argument("--stages", action="store_true", help="also print the time of each stage")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        source = save_images(folder / "in", arguments.images)
        local = [build(source, folder / f"local{run}") for run in range(arguments.runs)]
        with running_cluster(folder / "flink", slots=arguments.slots, jar=arguments.job_server) as master:
            flags = ["--runner=FlinkRunner", f"--flink_master={master}"]
            found = []
            for run in range(arguments.runs + 1):
                told = build(source, folder / f"flink{run}", *flags)
                found.append({**told, **ask_flink(master, told)})
    warm = min(found[1:], key=lambda one: one["seconds"])
    print(f"{arguments.images} images; on this machine alone {min(one['seconds'] for one in local):.1f} s")
    print("| step | first build | a later build |\n|---|---|---|")
    for (name, first), later in zip(steps_of(found[0]).items(), steps_of(warm).values(), strict=True):
        print(f"| {name} | {first:.1f} s | {later:.1f} s |")
    if arguments.stages:
        for name, begin, end in warm["vertices"]:
            print(f"{begin - warm['at']['running']:7.2f} {end - begin:6.2f}  {name}")


def save_images(folder: pathlib.Path, count: int) -> pathlib.Path:
    """Saves pictures of noise, 300 by 400 pixels, in two classes."""
    random = np.random.default_rng(0)
    for number in range(count):
        path = folder / ("cat", "dog")[number % 2] / f"{number:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (30, 40, 3), np.uint8)
        Image.fromarray(pixels).resize((400, 300)).save(path)
    return folder


def build(source: pathlib.Path, output: pathlib.Path, *flags: str) -> dict[str, Any]:
    """Builds a dataset in a new process; returns its seconds, and the time of each step since the epoch."""
    words = [f"--input={source}", f"--output={output}", "--image_size=128", "--num_shards=1", *flags]
    begin = time.time()
    ran = subprocess.run([sys.executable, __file__, _CHILD, *words], capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(ran.stderr)
    told = json.loads(ran.stdout.splitlines()[-1])
    shutil.rmtree(output)
    return {"at": {"begin": begin, "end": time.time(), **told}, "seconds": time.time() - begin}


def build_and_tell(words: list[str]) -> None:
    """Runs `convert`, and prints when its steps began as the last line."""
    from beam_tfrecords.beam_pipelines.commands.cli import main as run_command

    at: dict[str, float] = {}

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            at.setdefault(name, time.time())
            found = function(*arguments, **named)
            at[f"after {name}"] = time.time()
            return found

        return call

    from beam_tfrecords.beam_pipelines.build import build as builds

    builds.prepare_build = noting("prepare", builds.prepare_build)
    builds.run_build = noting("run", builds.run_build)
    if any(word.startswith("--runner") for word in words):
        from apache_beam.runners.portability import flink_uber_jar_job_server as server

        for name in ("prepare", "run"):
            setattr(server.FlinkBeamJob, name, noting(f"job {name}", getattr(server.FlinkBeamJob, name)))
    with contextlib.redirect_stdout(io.StringIO()):
        code = run_command(["convert", *words])
    print(json.dumps(at))
    sys.stdout.flush()
    sys.exit(code)


def ask_flink(master: str, told: dict[str, Any]) -> dict[str, Any]:
    """Returns when the newest job and its stages began and ended."""

    def get(path: str) -> Any:
        with urllib.request.urlopen(f"http://{master}{path}", timeout=30) as response:
            return json.load(response)

    job = max(get("/jobs/overview")["jobs"], key=lambda one: one["start-time"])
    found = get(f"/jobs/{job['jid']}")
    vertices = [(one["name"][:100], one["start-time"] / 1e3, one["end-time"] / 1e3) for one in found["vertices"]]
    vertices.sort(key=lambda one: one[1:])
    told["at"] |= {
        "created": found["start-time"] / 1e3,
        "running": found["timestamps"]["RUNNING"] / 1e3,
        "finished": found["end-time"] / 1e3,
        "converted": max(one[2] for one in vertices if "ConvertBlocks" in one[0]),
    }
    return {"vertices": vertices}


def steps_of(found: dict[str, Any]) -> dict[str, float]:
    """Returns step -> seconds; the steps follow each other."""
    at = found["at"]
    return {
        "start of the program, imports, questions to the cluster": at["prepare"] - at["begin"],
        "list the input, plan the build": at["run"] - at["prepare"],
        "make the pipeline, copy the jar": at["job run"] - at["run"],
        "upload the jar, plan the job": at["created"] - at["job run"],
        "Flink: load classes, start workers, import Beam, convert": at["converted"] - at["created"],
        "Flink: stages after the conversion": at["finished"] - at["converted"],
        "the launcher sees the end, writes the report": at["end"] - at["finished"],
        "all": found["seconds"],
    }


@contextlib.contextmanager
def running_cluster(folder: pathlib.Path, *, slots: int, jar: str | None) -> Iterator[str]:
    """Runs a cluster until the block ends; yields its address."""
    rest, rpc = free_ports()
    words = [f"--run-dir={folder}", f"--rest-port={rest}", f"--rpc-port={rpc}", "--task-managers=2", f"--slots={slots}"]
    words += [f"--job-server={jar}"] if jar else []
    try:
        subprocess.run([_SCRIPT, "up", *words], check=True, stdout=subprocess.DEVNULL)
        yield f"127.0.0.1:{rest}"
    finally:
        subprocess.run([_SCRIPT, "down", *words], check=True, stdout=subprocess.DEVNULL)


def free_ports() -> list[int]:
    """Returns two free ports of this machine."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        return [one.getsockname()[1] for one in sockets]


if __name__ == "__main__":
    if sys.argv[1:2] == [_CHILD]:
        build_and_tell(sys.argv[2:])
    main()
