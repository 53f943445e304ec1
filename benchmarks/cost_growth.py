"""Converts N and 4 N photos in turn, with beam-tfrecords and with its codec in a bare pool, and compares the times.

    python benchmarks/cost_growth.py                 N = 10,000, 5 rounds

Of beam-tfrecords the start-up is taken off: what passes until the first part file is there. The bare pool
tells what the machine itself does when four times as many files are read and written.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from contestants import CONTESTANTS, ENVIRONMENT
from run import prepare_photos

_SIZE = "500x375"
_POLL_SECONDS = 0.01


def time_run(name: str, photos: pathlib.Path) -> tuple[float, float]:
    """Seconds until a contestant's first part file was there (0 if it makes none), and until its end."""
    with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
        output = pathlib.Path(folder) / "output"
        command = CONTESTANTS[name].make_command(photos, output)
        start = time.monotonic()
        first = 0.0
        with subprocess.Popen(
            command, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while process.poll() is None:
                time.sleep(_POLL_SECONDS)
                if not first and any(output.glob(".build/*/parts/*")):
                    first = time.monotonic() - start
        if process.returncode:
            raise RuntimeError(f"{name} ended with exit code {process.returncode}")
        return first, time.monotonic() - start


def main() -> None:
    """Prints each round and the medians."""
    parser = argparse.ArgumentParser(description="Measures how the time grows with the photos.")
    parser.add_argument("--count", type=int, default=10_000, help="of photos, and four times as many")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    folders = [prepare_photos(_SIZE, count) for count in (arguments.count, 4 * arguments.count)]
    for folder in folders:
        for path in folder.glob("*/*.jpg"):
            path.read_bytes()  # into the page cache, for all alike
    growths: dict[str, list[float]] = {"beam_tfrecords": [], "own_codec": []}
    for number in range(arguments.rounds):
        for name, growth in growths.items():
            (some_first, some), (many_first, many) = (time_run(name, folder) for folder in folders)
            growth.append((many - many_first) / (some - some_first))
            print(
                f"round {number + 1}  {name:15} {some:.2f} s ({some_first:.2f} s to the first part), "
                f"{many:.2f} s ({many_first:.2f} s): {growth[-1]:.2f} times as long after start-up"
            )
    for name, growth in growths.items():
        print(f"{CONTESTANTS[name].title}: {statistics.median(growth):.2f} times as long for four times the photos")


if __name__ == "__main__":
    main()
