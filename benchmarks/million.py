"""A million small images from a bucket to a bucket on a Flink cluster of four task managers, one of which is killed.

    make test-integration                                          installs the store and Flink
    .venv-integration/bin/python benchmarks/million.py
    .venv-integration/bin/python benchmarks/million.py --count=5000 --seconds=1

The store is an emulator of S3 that keeps objects as files with extended attributes, so the images are written to its
folder, and it logs its requests. All runs on this machine: the store, the cluster, the launcher. When half of the
blocks are done, a task manager is killed with SIGKILL and another one started. Memory and requests are looked at over
the length of the build; they, and what `scale_plan.py` predicts for as many images, go to --results.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import boto3
import numpy as np
from figures import RESULTS, write_figures
from peak_memory import adopt_orphans, descendants, memory_of, seconds_of, used_seconds
from PIL import Image
from scale_plan import Photos, plan

from beam_tfrecords import open_dataset

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from tests.integration.servers import flink, processes

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")
_SIDE, _CLASSES, _TASK_MANAGERS = 32, 1000, 4
_IMAGES, _OUTPUT = "photos", "datasets/out"
_USER, _PASSWORD = "benchmark", "of-a-million"
# Of a line of the log.
_OPERATION = re.compile(r" s3_(\w+) ")
# Where the store keeps an object's ETag.
_ETAG = "user.etag"


def write_images(folder: pathlib.Path, count: int) -> int:
    """Writes distinct images into class folders; returns their mean size in bytes."""
    shares = [range(start, count, os.cpu_count() or 1) for start in range(os.cpu_count() or 1)]
    for number in range(_CLASSES):
        (folder / f"class_{number:03d}").mkdir(parents=True)
    with multiprocessing.Pool() as pool:
        sizes = pool.starmap(_write_share, [(folder, share) for share in shares])
    return sum(sizes) // count


def _write_share(folder: pathlib.Path, numbers: range) -> int:
    generator = np.random.default_rng(numbers.start)
    size = 0
    for number in numbers:
        # As smooth as photos are.
        coarse = Image.fromarray(generator.integers(0, 256, (6, 6, 3), np.uint8))
        path = folder / f"class_{number % _CLASSES:03d}" / f"{number:09d}.jpg"
        encoded = io.BytesIO()
        coarse.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC).save(encoded, "jpeg", quality=90)
        path.write_bytes(encoded.getvalue())
        os.setxattr(path, _ETAG, hashlib.md5(encoded.getvalue()).hexdigest().encode())
        size += len(encoded.getvalue())
    return size


@contextlib.contextmanager
def store(root: pathlib.Path, log: pathlib.Path) -> Iterator[None]:
    """Runs the store over a folder of buckets, for this process and those that it starts."""
    port = processes.free_port()
    command: list[str | pathlib.Path] = [processes.binary("versitygw"), "--quiet", "--keep-alive"]
    command += [f"--port=127.0.0.1:{port}", f"--access-log={log}", "posix", root]
    own = {"ROOT_ACCESS_KEY": _USER, "ROOT_SECRET_KEY": _PASSWORD}
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": _USER,
        "AWS_SECRET_ACCESS_KEY": _PASSWORD,
    }
    with processes.running(command, port=port, log=root.with_name("store.log"), env={**os.environ, **own}):
        for bucket in (_IMAGES, _OUTPUT.partition("/")[0]):
            boto3.client("s3").create_bucket(Bucket=bucket)
        yield


class Watch:
    """Looks at memory, requests and finished blocks every few seconds.

    Attributes:
      samples: at each time: seconds, those of the processors, MB by role, requests by operation, blocks, parts.
    """

    def __init__(self, log: pathlib.Path, output: pathlib.Path, *, seconds: float) -> None:
        self.samples: list[dict[str, Any]] = []
        self._log, self._output, self._seconds = log, output, seconds
        self._requests, self._read = Counter[str](), 0
        self._begun = time.monotonic()
        self._spent = used_seconds() + sum(map(seconds_of, descendants(os.getpid())))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.look()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self.look()

    def look(self) -> None:
        """Adds a sample."""
        sizes = Counter[str]()
        spent = used_seconds()
        for pid in descendants(os.getpid()):
            spent += seconds_of(pid)
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                sizes[_role_of(words)] += memory_of(pid)
        self._count_requests()
        found = {
            "seconds": time.monotonic() - self._begun,
            "processor_seconds": spent - self._spent,
            "requests": dict(self._requests),
        }
        self.samples.append(
            found | {"memory": {role: size / 1e6 for role, size in sizes.items()}} | finished(self._output)
        )

    def _count_requests(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._log.open() as file:
            file.seek(self._read)
            lines = file.read()
            # The last line may be half written.
            whole = lines[: lines.rfind("\n") + 1]
            self._read += len(whole.encode())
            self._requests.update(found[1] for found in map(_OPERATION.search, whole.splitlines()) if found)


def _role_of(words: list[bytes]) -> str:
    name = os.path.basename(words[0])
    if name == b"java":
        return "JVMs"
    if name == b"versitygw":
        return "store"
    return "launcher" if os.fsencode(_COMMAND) in words[:2] and b"convert" in words else "workers"


def finished(output: pathlib.Path) -> dict[str, int]:
    """Blocks that are done, and parts written."""
    found = {"blocks": 0, "parts": 0}
    for folder in output.glob(".build/*"):
        for name, pattern in (("blocks", r"\.json$"), ("parts", r"\.tfrecord$")):
            with contextlib.suppress(OSError):
                found[name] += sum(bool(re.search(pattern, one)) for one in os.listdir(folder / name))
    return found


def build(cluster: flink.FlinkCluster, output: pathlib.Path, *, blocks: int) -> dict[str, Any]:
    """Runs the build, and kills a task manager when half of the blocks are done."""
    words = [f"--input=s3://{_IMAGES}", f"--output=s3://{_OUTPUT}", f"--image_size={_SIDE}", "--name=photos"]
    words += ["--runner=FlinkRunner", f"--flink_master={cluster.master}", "--no_report"]
    begun = time.monotonic()
    killed_after: float | None = None
    with subprocess.Popen([str(_COMMAND), "convert", *words]) as launcher:
        while launcher.poll() is None:
            time.sleep(0.5)
            if killed_after is None and finished(output)["blocks"] >= blocks / 2:
                cluster.kill_task_manager(1)
                killed_after = time.monotonic() - begun
                cluster.start_task_manager()
                print(f"killed a task manager after {killed_after:.0f} s", flush=True)
    if launcher.returncode:
        raise RuntimeError(f"the build ended with exit code {launcher.returncode}")
    return {"seconds": time.monotonic() - begun, "killed_after": killed_after, **_shuffled(cluster)}


def _shuffled(cluster: flink.FlinkCluster) -> dict[str, Any]:
    """Bytes that the tasks of Flink have sent to each other, and how often tasks began again."""
    sent, restarts = 0, 0
    for job in cluster.get("/jobs")["jobs"]:
        vertices = cluster.get(f"/jobs/{job['id']}")["vertices"]
        sent += sum(vertex["metrics"]["write-bytes"] for vertex in vertices)
        restarts += len(cluster.failures(job["id"]))
    return {"sent_bytes": sent, "failures": restarts}


def predict(count: int, source_bytes: int) -> dict[str, Any]:
    """What `scale_plan.py` says of so many images."""
    found = plan(count, 0, rate=1, photos=Photos(side=_SIDE, source_bytes=source_bytes))
    return {
        "blocks": found.blocks,
        "parts": found.parts,
        "shards": found.shards,
        "reads": sum(stage.reads for stage in found.stages if stage.name != "ComposeShards") + found.copies.reads,
        "writes": sum(stage.writes for stage in found.stages if stage.name != "ComposeShards") + found.copies.writes,
        "sent": found.sent,
    }


def main() -> None:
    """Makes the images, runs the build and prints what it took beside what was predicted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="of images")
    parser.add_argument("--seconds", type=float, default=15, help="between two looks")
    parser.add_argument("--memory", default="1600m", help="of a task manager")
    parser.add_argument("--place", help="folder for the store, 4 GB (the system's for temporary files)")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    # The programs of the cluster are sessions of their own.
    adopt_orphans()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.place)))
        root, log = folder / "buckets", folder / "requests.log"
        root.mkdir()
        stack.enter_context(store(root, log))
        begun = time.monotonic()
        source_bytes = write_images(root / _IMAGES, arguments.count)
        print(f"{arguments.count:,} images of {source_bytes:,} bytes in {time.monotonic() - begun:.0f} s", flush=True)
        predicted = predict(arguments.count, source_bytes)
        options = [f"--memory={arguments.memory}"]
        cluster = stack.enter_context(
            flink.flink_cluster(folder / "flink", task_managers=_TASK_MANAGERS, options=options)
        )
        watch = stack.enter_context(Watch(log, root / _OUTPUT, seconds=arguments.seconds))
        measured = build(cluster, root / _OUTPUT, blocks=predicted["blocks"])
        watch.look()
        shards = open_dataset(root / _OUTPUT).shards
        if (written := sum(shard.records for shard in shards)) != arguments.count:
            raise RuntimeError(f"{written:,} records of {arguments.count:,} images")
    measured["shards"] = len(shards)
    for name in ("blocks", "parts"):
        measured[name] = max(sample[name] for sample in watch.samples)
    print(json.dumps({"measured": measured, "predicted": predicted, "last": watch.samples[-1]}, indent=1))
    write_figures(
        arguments.results / f"million_{arguments.count}.json",
        script=__file__,
        rounds=1,
        count=arguments.count,
        source_bytes=source_bytes,
        measured=measured,
        predicted=predicted,
        samples=watch.samples,
    )


if __name__ == "__main__":
    main()
