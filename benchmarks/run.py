"""Runs the contestants in turn, several rounds interleaved, and writes how fast and how large they were.

    python benchmarks/run.py                                        8,000 photos like ImageNet's, 5 rounds
    python benchmarks/run.py --size=4000x3000 --count=300           12 megapixels
    python benchmarks/run.py --photos=DIR                           8,000 links to the JPEG files of a folder
    python benchmarks/run.py --only=pillow,beam_tfrecords --rounds=9

Wall time includes start-up. Looking at memory slows a command down, so an extra round measures memory and is not
timed. Missing photos and environments are made first. `tables.py` makes the tables of the documents from the results.
"""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from contestants import CONTESTANTS, ENVIRONMENT, count_images, environment_python, prepare_environments
from figures import list_versions, write_figures
from make_photos import photo_options, photos_title, prepare_photos
from peak_memory import measure


@dataclasses.dataclass(frozen=True)
class Run:
    """One contestant's run in one round.

    Attributes:
      contestant: its name.
      round: number of the round, from 0.
      seconds: wall time.
      peak_bytes: memory of all processes together; None in a timed round.
      images: number of images written.
    """

    contestant: str
    round: int
    seconds: float
    peak_bytes: int | None
    images: int


@dataclasses.dataclass(frozen=True)
class Row:
    """One contestant's medians over the rounds.

    Attributes:
      contestant: its name.
      title: for people.
      rate: images per second.
      slowest: images per second in the slowest round.
      fastest: images per second in the fastest round.
      ratio: how many times as fast the reference is, within each round.
      lost: photos missing from the output of its worst run.
      peak_bytes: memory of all processes together; None without a memory round.
    """

    contestant: str
    title: str
    rate: float
    slowest: float
    fastest: float
    ratio: float
    lost: int
    peak_bytes: float | None


def run_once(name: str, *, photos: pathlib.Path, count: int, round_number: int, timed: bool) -> Run:
    """Runs one contestant and counts its images; ours must write every photo.

    Args:
      name: of the contestant.
      photos: folder of class folders.
      count: number of photos in it.
      round_number: goes into the result.
      timed: measures time; otherwise memory.

    Raises:
      RuntimeError: the contestant failed, or it is ours and lost photos; the message ends with the end of its log.
    """
    with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
        output = pathlib.Path(folder) / "output"
        with open(pathlib.Path(folder) / "log", "w+b") as log:
            command = CONTESTANTS[name].make_command(photos, output)
            measured = measure(command, sample_memory=not timed, log=log, environment=ENVIRONMENT)
            written = count_images(output)
            if measured.exit_code or (written != count and CONTESTANTS[name].environment is None):
                log.seek(0)
                tail = log.read()[-4000:].decode(errors="replace")
                raise RuntimeError(
                    f"{name} ended with exit code {measured.exit_code} and {written} of {count} images:\n{tail}"
                )
    return Run(name, round_number, measured.seconds, None if timed else measured.peak_bytes, written)


def summarize(runs: Sequence[Run], *, count: int, reference: str) -> list[Row]:
    """Returns the medians of each contestant, the fastest first.

    Args:
      runs: of all contestants and rounds.
      count: photos of a run.
      reference: name of the contestant that all are compared with.
    """
    timed = [run for run in runs if run.peak_bytes is None]
    reference_seconds = {run.round: run.seconds for run in timed if run.contestant == reference}
    rows = []
    for name in dict.fromkeys(run.contestant for run in timed):
        own = [run for run in timed if run.contestant == name]
        rates = [count / run.seconds for run in own]
        # Within a round, because a machine that is slower for a while slows both.
        ratios = [run.seconds / reference_seconds[run.round] for run in own if run.round in reference_seconds]
        peaks = [run.peak_bytes for run in runs if run.contestant == name and run.peak_bytes is not None]
        rows.append(
            Row(
                name,
                CONTESTANTS[name].title,
                statistics.median(rates),
                min(rates),
                max(rates),
                statistics.median(ratios),
                count - min(run.images for run in runs if run.contestant == name),
                statistics.median(peaks) if peaks else None,
            )
        )
    return sorted(rows, key=lambda row: -row.rate)


def main() -> None:
    """Runs the rounds that the command line asks for."""
    parser = photo_options(__doc__ or "")
    parser.add_argument("--memory_rounds", type=int, default=1, help="rounds that look at memory")
    parser.add_argument("--only", default=",".join(CONTESTANTS), help=f"some of {', '.join(CONTESTANTS)}")
    parser.add_argument("--name", help="name of the result's file (size or folder, and count)")
    parser.add_argument("--chart", type=pathlib.Path, help="PNG to draw when all rounds are done")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := set(names) - set(CONTESTANTS):
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; expected some of {', '.join(CONTESTANTS)}")
    reference = "beam_tfrecords" if "beam_tfrecords" in names else names[0]
    needed = {environment for name in names if (environment := CONTESTANTS[name].environment)}
    prepare_environments(sorted(needed | ({"chart"} if arguments.chart else set())))
    photos = prepare_photos(arguments)
    for path in photos.glob("*/*.jpg"):
        path.read_bytes()  # into the page cache, for all alike

    of = arguments.photos.absolute().name if arguments.photos else arguments.size.replace(",", "-")
    results = arguments.results / f"{arguments.name or f'{of}x{arguments.count}'}.json"
    runs: list[Run] = []
    for number in range(arguments.rounds + arguments.memory_rounds):
        # Each round starts with another contestant, so that none always runs after the same one.
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            timed = number < arguments.rounds
            runs.append(run_once(name, photos=photos, count=arguments.count, round_number=number, timed=timed))
            figure = f"{runs[-1].seconds:.2f} s" if timed else f"{(runs[-1].peak_bytes or 0) / 1e6:.0f} MB"
            print(f"round {number + 1}  {name:22} {figure:>10}  {runs[-1].images} images", file=sys.stderr)
        rows = summarize(runs, count=arguments.count, reference=reference)
        write_figures(
            results,
            rounds=min(number + 1, arguments.rounds),
            versions={name: list_versions(environment_python(CONTESTANTS[name].environment)) for name in names},
            size=photos_title(arguments),
            count=arguments.count,
            summary=[dataclasses.asdict(row) for row in rows],
            runs=[dataclasses.asdict(run) for run in runs],
        )
    for row in rows:
        peak = f"{row.peak_bytes / 1e6:,.0f} MB" if row.peak_bytes else ""
        print(
            f"{row.title:45} {row.rate:6.0f} images/s ({row.slowest:.0f} to {row.fastest:.0f}) {row.ratio:.2f}x {peak}"
        )
    if arguments.chart:
        chart = str(pathlib.Path(__file__).with_name("chart.py"))
        subprocess.run([environment_python("chart"), chart, str(results), str(arguments.chart)], check=True)


if __name__ == "__main__":
    main()
