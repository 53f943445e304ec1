"""What `--near_duplicates=4` costs: processor time of builds with and without it, in turn.

    python benchmarks/near_duplicates.py             40,000 photos like ImageNet's, 3 rounds

Processor time is that of all processes of a build, start-up included.
"""

from __future__ import annotations

import tempfile

from figures import COMMAND, write_figures
from make_photos import photo_options, photos_title, prepare_photos
from peak_memory import measure


def main() -> None:
    """Runs the rounds."""
    arguments = photo_options(__doc__ or "", count=40_000, rounds=3).parse_args()
    photos = prepare_photos(arguments)
    seconds: dict[int, list[float]] = {0: [], 4: []}
    for number in range(arguments.rounds):
        for distance, used in seconds.items():
            with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
                words = [f"--input={photos}", f"--output={folder}/out", "--image_size=256", "--quiet"]
                command = [COMMAND, "convert", *words, f"--near_duplicates={distance}"]
                done = measure(command, sample_memory=False)
            if done.exit_code:
                raise RuntimeError(f"the build ended with {done.exit_code}")
            used.append(done.processor_seconds)
            print(f"round {number + 1}  --near_duplicates={distance}  {used[-1]:.1f} s", flush=True)
    write_figures(
        arguments.results / f"near_duplicates_{arguments.count}.json",
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=arguments.count,
        processor_seconds=seconds,
    )


if __name__ == "__main__":
    main()
