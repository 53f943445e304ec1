"""Builds a dataset with and without syncing it to the disk, in turn, and compares the times.

    python benchmarks/sync_cost.py --photos=PHOTOS --output=FOLDER     5 rounds

FOLDER should be on the disk that is to be measured. Parts are synced in neither case.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# Python runs this first, in every process.
_PATCH = """\
import os, time
sync, log = os.fsync, os.open(os.environ["SYNC_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def fsync(file):
    start = time.monotonic()
    if os.environ["SYNC"] == "True":
        sync(file)
    os.write(log, f"{time.monotonic() - start}\\n".encode())

os.fsync = fsync
"""


def time_build(photos: pathlib.Path, folder: pathlib.Path, *, syncs: bool) -> tuple[float, float]:
    """Seconds that a build takes, and seconds that its processes wait for the disk."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        pathlib.Path(temporary, "sitecustomize.py").write_text(_PATCH)
        log = pathlib.Path(temporary, "log")
        environment = {**os.environ, "PYTHONPATH": temporary, "SYNC": str(syncs), "SYNC_LOG": str(log)}
        command = [sys.executable, "-m", "beam_pipelines.convert", f"--input={photos}", "--image_size=256"]
        os.sync()  # what earlier builds wrote
        start = time.monotonic()
        subprocess.run([*command, f"--output={temporary}/out"], env=environment, check=True, capture_output=True)
        return time.monotonic() - start, sum(map(float, log.read_text().split()))


def main() -> None:
    """Prints each round and the medians."""
    parser = argparse.ArgumentParser(description="Measures what syncing a dataset to the disk costs.")
    parser.add_argument("--photos", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="a folder on the disk to be measured")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    times: dict[bool, list[float]] = {True: [], False: []}
    waits: list[float] = []
    for number in range(arguments.rounds):
        for syncs in (True, False) if number % 2 else (False, True):
            seconds, waited = time_build(arguments.photos, arguments.output, syncs=syncs)
            times[syncs].append(seconds)
            waits += [waited] if syncs else []
        print(
            f"round {number + 1}: {times[True][-1]:.2f} s with syncing, of which {waits[-1]:.2f} s for the disk; "
            f"{times[False][-1]:.2f} s without",
            flush=True,
        )
    for syncs, word in ((True, "with"), (False, "without")):
        print(f"{word} syncing: {statistics.median(times[syncs]):.2f} s (median)")
    print(f"waiting for the disk: {statistics.median(waits):.2f} s (median)")


if __name__ == "__main__":
    main()
