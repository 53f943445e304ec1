"""What a nightly build costs when little has changed, against a build from scratch.

    python benchmarks/reuse.py                       8,000 photos like ImageNet's, 5 rounds
    python benchmarks/reuse.py --count=40000 --rounds=1

In every round: a first version; then 1% of the photos added, 0.5% changed, 0.5% removed and 0.5% moved into another
class, and the next version; the same from scratch, whose shards must be equal; and once more with nothing changed.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import subprocess
import tempfile
import time

from figures import COMMAND, write_figures
from make_photos import photo_options, photos_title, prepare_photos

from beam_tfrecords import open_dataset


def change_photos(photos: pathlib.Path, changed: pathlib.Path) -> None:
    """Makes the photos of the next day: links to the same files, except where something changes."""
    paths = sorted(photos.rglob("*.jpg"))
    classes = sorted(path.name for path in photos.iterdir())
    chosen = random.Random(0).sample(paths, len(paths) * 25 // 1000)
    step = len(paths) // 200
    replaced, removed, moved = (set(chosen[start : start + step]) for start in (0, step, 2 * step))
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


def build(photos: pathlib.Path, output: pathlib.Path, *flags: str) -> float:
    """Runs a build; returns its seconds, start-up included."""
    start = time.monotonic()
    command = [COMMAND, "convert", f"--input={photos}", f"--output={output}", "--image_size=256", *flags]
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - start


def main() -> None:
    """Runs the rounds."""
    arguments = photo_options(__doc__ or "").parse_args()
    seconds: dict[str, list[float]] = {"first": [], "next": [], "from scratch": [], "unchanged": []}
    photos = prepare_photos(arguments)
    with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
        root = pathlib.Path(folder)
        change_photos(photos, root / "changed")
        link, versions, scratch = root / "input", root / "versions", root / "scratch"
        flags = ("--versioned", "--name=photos")
        for number in range(arguments.rounds):
            for output in (versions, scratch):
                shutil.rmtree(output, ignore_errors=True)
            link.unlink(missing_ok=True)
            link.symlink_to(photos)
            seconds["first"].append(build(link, versions, *flags))
            link.unlink()
            link.symlink_to(root / "changed")
            seconds["next"].append(build(link, versions, *flags))
            latest = versions / (versions / "LATEST").read_text().strip()
            seconds["from scratch"].append(build(link, scratch, "--name=photos"))
            if list(open_dataset(latest).shards) != list(open_dataset(scratch).shards):
                raise RuntimeError(f"{latest} and {scratch} differ")
            seconds["unchanged"].append(build(link, versions, *flags))
            print(f"round {number + 1}  { ({name: round(times[-1], 2) for name, times in seconds.items()}) }")
    write_figures(
        arguments.results / f"reuse_{arguments.count}.json",
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=arguments.count,
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
