"""What `--near_duplicates=4` costs: processor time of builds with and without it, in turn.

    python benchmarks/near_duplicates.py             40,000 photos like ImageNet's, 3 rounds
    python benchmarks/near_duplicates.py --count=2000

Processor time is that of all processes of a build, start-up included, so it matters little what else runs.
The seconds go to --results.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
import tempfile

from figures import write_figures
from peak_memory import measure
from run import photo_options, photos_title, prepare_photos

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")
_DISTANCES = (0, 4)


def build(photos: pathlib.Path, distance: int) -> tuple[float, int]:
    """Runs a build; returns its processor time in seconds, and how many groups it found."""
    with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
        words = [f"--input={photos}", f"--output={folder}/out", "--image_size=256", f"--near_duplicates={distance}"]
        done = measure([str(_COMMAND), "convert", *words, "--quiet"], sample_memory=False)
        if done.exit_code:
            raise RuntimeError(f"the build ended with {done.exit_code}")
        manifest = json.loads(pathlib.Path(folder, "out/manifest.json").read_text())
        return done.processor_seconds, manifest["near_duplicates"].get("groups", 0)


def main() -> None:
    """Runs the rounds and prints the medians."""
    arguments = photo_options(__doc__ or "", count=40_000, rounds=3).parse_args()
    photos = prepare_photos(arguments)
    seconds: dict[int, list[float]] = {distance: [] for distance in _DISTANCES}
    groups = 0
    for number in range(arguments.rounds):
        for distance in _DISTANCES:
            used, groups = build(photos, distance)
            seconds[distance].append(used)
        print(
            f"round {number + 1}  { ({distance: round(used[-1], 2) for distance, used in seconds.items()}) }",
            flush=True,
        )
    cost = statistics.median(near - plain for plain, near in zip(*seconds.values(), strict=True))
    share = cost / statistics.median(seconds[0])
    print(
        f"near-duplicates of {arguments.count:,} photos: {cost:.1f} s of processor time, {share:.1%}; {groups:,} groups"
    )
    path = arguments.results / f"near_duplicates_{arguments.count}.json"
    write_figures(
        path,
        script=__file__,
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=arguments.count,
        processor_seconds=seconds,
        groups=groups,
    )


if __name__ == "__main__":
    main()
