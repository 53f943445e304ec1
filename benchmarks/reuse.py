"""What a nightly build costs when little has changed, against a build from scratch.

    python benchmarks/reuse.py                       8,000 photos like ImageNet's, 5 rounds
    python benchmarks/reuse.py --count=40000 --rounds=1

In every round: a first version; then 1% of the photos added, 0.5% changed, 0.5% removed and 0.5% moved into another
class, and the next version; the same from scratch, whose shards must be equal; and once more with nothing changed.
The seconds go to --results.
"""

from __future__ import annotations

import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from figures import write_figures
from run import photo_options, photos_title, prepare_photos

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")


def change_photos(photos: pathlib.Path, changed: pathlib.Path) -> None:
    """Makes the photos of the next day: links to the same files, except where something changes."""
    paths = sorted(photos.rglob("*.jpg"))
    classes = sorted(path.name for path in photos.iterdir())
    chosen = random.Random(0).sample(paths, len(paths) * 25 // 1000)
    step = len(paths) // 200
    replaced, removed, moved = (set(chosen[begin : begin + step]) for begin in (0, step, 2 * step))
    for path in paths:
        name = path.relative_to(photos)
        if path in removed:
            continue
        if path in moved:
            others = [one for one in classes if one != name.parts[0]]
            name = pathlib.Path(others[len(name.name) % len(others)], f"moved_{name.name}")
        target = changed / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path in replaced:
            # The bytes of another photo, with a new time.
            shutil.copyfile(chosen[-1], target)
        else:
            target.hardlink_to(path)
    for number, path in enumerate(chosen[3 * step :]):
        shutil.copyfile(path, changed / classes[number % len(classes)] / f"added_{number}.jpg")


def build(photos: pathlib.Path, output: pathlib.Path, *flags: str) -> tuple[float, str]:
    """Runs a build; returns seconds, start-up included, and what it printed."""
    begin = time.monotonic()
    command = [str(_COMMAND), "convert", f"--input={photos}", f"--output={output}", "--image_size=256", *flags]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.monotonic() - begin, done.stdout


def shards_of(folder: pathlib.Path) -> list[Any]:
    """The shards of a dataset, with their hashes."""
    return list(json.loads((folder / "manifest.json").read_text())["shards"])


def main() -> None:
    """Runs the rounds and prints the medians."""
    arguments = photo_options(__doc__ or "").parse_args()
    seconds: dict[str, list[float]] = {"first": [], "next": [], "from scratch": [], "unchanged": []}
    photos = prepare_photos(arguments)
    with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
        root = pathlib.Path(folder)
        changed = root / "changed"
        change_photos(photos, changed)
        link, versions, scratch = root / "input", root / "versions", root / "scratch"
        for number in range(arguments.rounds):
            for output in (versions, scratch):
                shutil.rmtree(output, ignore_errors=True)
            link.unlink(missing_ok=True)
            link.symlink_to(photos)
            flags = ("--versioned", "--name=photos")
            seconds["first"].append(build(link, versions, *flags)[0])
            link.unlink()
            link.symlink_to(changed)
            spent, said = build(link, versions, *flags)
            seconds["next"].append(spent)
            latest = versions / (versions / "LATEST").read_text().strip()
            seconds["from scratch"].append(build(link, scratch, "--name=photos")[0])
            if shards_of(latest) != shards_of(scratch):
                raise RuntimeError(f"{latest} and {scratch} differ")
            seconds["unchanged"].append(build(link, versions, *flags)[0])
            counts = next(line for line in said.splitlines() if line.startswith("since "))
            print(f"round {number + 1}  { ({name: round(times[-1], 2) for name, times in seconds.items()}) }")
            print(f"  {counts.split(': ')[1]}", flush=True)
    for name, times in seconds.items():
        share = statistics.median(time / first for time, first in zip(times, seconds["first"], strict=True))
        print(f"{name:14} {statistics.median(times):7.2f} s  {share:6.1%} of the first build")
    write_figures(
        arguments.results / f"reuse_{arguments.count}.json",
        script=__file__,
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=arguments.count,
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
