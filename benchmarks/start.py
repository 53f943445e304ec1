"""What small builds wait for: time to the first block, from the last block to the end, and of the next versions.

    python benchmarks/start.py                                    8,000 photos of 256x192, 5 rounds
    python benchmarks/start.py --rounds=2 --only=first ../before ../after

Each round builds a version, then one after 1% of the photos were changed, then one after nothing was. Times are those
of the files that appear in the build folder, seen every 2 ms from a process of its own. The figures go to --results,
unless checkouts are named.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from typing import TypeAlias

from figures import RESULTS, write_figures
from make_photos import write_photos

# Checkout and kind of build -> what each took.
Found: TypeAlias = "defaultdict[tuple[str, str], list[dict[str, float]]]"
_CHANGED = 0.01
_PAUSE = 0.002


def watch(command: list[str], output: pathlib.Path, checkout: pathlib.Path) -> dict[str, float]:
    """Runs a build with the code of a checkout.

    Returns:
      Seconds until its first block begins, from its last block to its end, in all, and of the processors.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    seen: dict[str, float] = {}
    environment = {**os.environ, "PYTHONPATH": os.fspath(checkout)}
    with subprocess.Popen(
        command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        folder: str | None = None
        while process.poll() is None:
            now = time.monotonic() - started
            try:
                if folder is None:
                    found = [one for one in output.glob(".build/*/blocks") if one.is_dir()]
                    folder = os.fspath(found[0]) if found else None
                if folder is not None:
                    for name in os.listdir(folder):
                        seen.setdefault(name, now)
            except FileNotFoundError:
                pass
            time.sleep(_PAUSE)
        assert process.stderr is not None
        log = process.stderr.read().decode()
    ended = time.monotonic() - started
    if process.returncode:
        raise RuntimeError(log)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    times = {"all": ended, "processors": sum(after[:2]) - sum(before[:2])}
    if seen:
        times |= {"first block": min(seen.values()), "after the last": ended - max(seen.values())}
    return times


def change(photos: pathlib.Path, *, offset: int) -> None:
    """Exchanges the contents of neighbours among 1% of the photos."""
    paths = sorted(photos.rglob("*.jpg"))[offset :: round(1 / _CHANGED)]
    for one, other in zip(paths[::2], paths[1::2], strict=False):
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=pathlib.Path, help="folder that keeps the photos for the next time")
    parser.add_argument("--count", type=int, default=8_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("first", "versions"), default="versions")
    parser.add_argument("--flags", default="--image_size=128")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    parser.add_argument("checkouts", nargs="*", type=pathlib.Path, help="run in turn; this one if none is named")
    arguments = parser.parse_args()
    checkouts = [path.resolve() for path in arguments.checkouts or [pathlib.Path(__file__).parents[1]]]
    with tempfile.TemporaryDirectory(prefix="start-photos-") as folder:
        photos = (arguments.inputs or pathlib.Path(folder, "photos")).resolve()
        if not photos.exists():
            write_photos(photos, count=arguments.count, sizes=((256, 192),))
        found = compare(photos, checkouts, arguments)
    report(found)
    if not arguments.checkouts and arguments.only == "versions":
        write_figures(
            arguments.results / f"start_{arguments.count}.json",
            script=__file__,
            rounds=arguments.rounds,
            size="256x192",
            count=arguments.count,
            builds={kind: runs for (_, kind), runs in found.items()},
        )


def compare(photos: pathlib.Path, checkouts: list[pathlib.Path], arguments: argparse.Namespace) -> Found:
    """What the builds of each checkout took."""
    found: Found = defaultdict(list)
    for number in range(arguments.rounds):
        for checkout in checkouts:
            with tempfile.TemporaryDirectory(prefix="start-") as folder:
                output = pathlib.Path(folder, "out")
                flags = [
                    f"--input={photos}",
                    f"--output={output}",
                    "--versioned",
                    *arguments.flags.split(),
                ]
                command = [sys.executable, "-m", "beam_tfrecords", "convert", *flags]
                found[checkout.name, "first"].append(watch(command, output, checkout))
                if arguments.only == "versions":
                    change(photos, offset=number)
                    found[checkout.name, "1% changed"].append(watch(command, output, checkout))
                    found[checkout.name, "unchanged"].append(watch(command, output, checkout))
                shutil.rmtree(output)
    return found


def report(found: Found) -> None:
    """Prints medians and ranges."""
    for (name, kind), runs in found.items():
        parts = []
        for what in ("first block", "after the last", "all", "processors"):
            values = [one[what] for one in runs if what in one]
            if values:
                parts.append(f"{what} {statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})")
        print(f"{name:20} {kind:10} {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
