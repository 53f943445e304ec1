"""Runs the contestants in turn, several rounds interleaved, and prints how fast and how large they were.

    python benchmarks/run.py                                        8,000 photos like ImageNet's, 5 rounds
    python benchmarks/run.py --size=4000x3000 --count=300           12 megapixels
    python benchmarks/run.py --photos=DIR                           8,000 links to the JPEG files of a folder
    python benchmarks/run.py --only=pillow,beam_tfrecords --rounds=9
    python benchmarks/run.py --only=beam_tfrecords_keep_header,copy  the source's own bytes, against a copy

Wall time includes start-up. Looking at memory slows a command down, so it gets a round of its own, which
is not timed. Missing photos and environments are made first. The figures go to --results, and `tables.py` makes
the tables of the documents from them; --chart draws them.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from contestants import CONTESTANTS, ENVIRONMENT, USUAL, count_images, environment_python
from figures import RESULTS, describe_machine, digest_of, list_versions, write_figures
from make_photos import MIXED, parse_sizes, write_photos
from peak_memory import measure

_DROP_CACHES = pathlib.Path("/proc/sys/vm/drop_caches")
_HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Run:
    """One contestant's run in one round.

    Attributes:
      contestant: its name.
      round: number of the round, from 0.
      seconds: wall time.
      peak_bytes: of all processes together; None in a timed round.
      images: written.
      output_bytes: of all files written.
    """

    contestant: str
    round: int
    seconds: float
    peak_bytes: int | None
    images: int
    output_bytes: int


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
      lost: photos that were not in its output, in its worst run.
      peak_bytes: of all processes together; None without a round for it.
    """

    contestant: str
    title: str
    rate: float
    slowest: float
    fastest: float
    ratio: float
    lost: int
    peak_bytes: float | None


def run_once(name: str, *, photos: pathlib.Path, count: int, round_number: int, timed: bool, cold: bool) -> Run:
    """Runs one contestant and counts what it wrote; ours must write every photo.

    Args:
      name: of the contestant.
      photos: folder of class folders.
      count: photos in it.
      round_number: goes into the result.
      timed: whether this run is for its time; if not, it is for its memory.
      cold: read from the disk and write to it, not to the page cache; takes root.

    Raises:
      RuntimeError: it failed, or it is ours and lost photos; the message ends with the end of its log.
    """
    with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
        output = pathlib.Path(folder) / "output"
        with open(pathlib.Path(folder) / "log", "w+b") as log:
            command = CONTESTANTS[name].make_command(photos, output)
            if cold:
                os.sync()
                _DROP_CACHES.write_text("3")
            measurement = measure(command, sample_memory=not timed, log=log, environment=ENVIRONMENT)
            ended = time.monotonic()
            if cold:
                os.sync()
            seconds = measurement.seconds + time.monotonic() - ended
            written = count_images(output)
            if measurement.exit_code or (written != count and CONTESTANTS[name].environment is None):
                log.seek(0)
                tail = log.read()[-4000:].decode(errors="replace")
                raise RuntimeError(
                    f"{name} ended with exit code {measurement.exit_code} and {written} of {count} images:\n{tail}"
                )
        output_bytes = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    peak_bytes = None if timed else measurement.peak_bytes
    return Run(name, round_number, seconds, peak_bytes, written, output_bytes)


def summarize(runs: Sequence[Run], *, count: int, reference: str) -> list[Row]:
    """Medians of each contestant, the fastest first.

    Args:
      runs: of all contestants and rounds.
      count: photos of a run.
      reference: name of the contestant that all are held against.
    """
    timed = [run for run in runs if run.peak_bytes is None]
    reference_seconds = {run.round: run.seconds for run in timed if run.contestant == reference}
    rows = []
    for name in dict.fromkeys(run.contestant for run in timed):
        own = [run for run in timed if run.contestant == name]
        rates = [count / run.seconds for run in own]
        # Within a round, so that a machine that is slower for a while is so for both.
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


def format_table(rows: Sequence[Row], *, reference: str) -> str:
    """The medians as a Markdown table."""
    title = CONTESTANTS[reference].title
    lines = [
        f"| | images/s, median | slowest to fastest | {title} against it | peak memory, all processes |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        ratio = f"{row.ratio:.2f}x" if row.contestant != reference else ""
        peak = f"{row.peak_bytes / 1e6:.0f} MB" if row.peak_bytes is not None else ""
        lost = f" (lost up to {row.lost} photos a run)" if row.lost else ""
        lines.append(
            f"| {row.title}{lost} | {row.rate:.0f} | {row.slowest:.0f} to {row.fastest:.0f} | {ratio} | {peak} |"
        )
    return "\n".join(lines)


def list_photos(folder: pathlib.Path) -> list[pathlib.Path]:
    """The JPEG files below a folder, in the order of their paths."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def prepare_photos(arguments: argparse.Namespace) -> pathlib.Path:
    """The folder with the photos of a benchmark, made if it is not there yet; see `photo_options`."""
    # Photos of other code are others.
    code = digest_of([_HERE / "make_photos.py", _HERE / "icc_profiles.py"])[:8]
    made_of = f"{arguments.size.replace(',', '-')}-{code}" if arguments.photos is None else "real"
    folder = _HERE / ".photos" / f"{made_of}x{arguments.count}"
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    if arguments.photos is not None:
        shutil.rmtree(folder, ignore_errors=True)
        link_photos(list_photos(arguments.photos), unfinished, count=arguments.count)
    elif not folder.exists():
        print(f"making {arguments.count} photos", file=sys.stderr)
        write_photos(unfinished, count=arguments.count, sizes=parse_sizes(arguments.size))
    if unfinished.exists():
        unfinished.rename(folder)
    return folder


def link_photos(photos: Sequence[pathlib.Path], folder: pathlib.Path, *, count: int, classes: int = 10) -> None:
    """Links photos into a folder of class folders: a random choice if there are more, each several times if fewer.

    Args:
      photos: the files; copied where the file system takes no hard links to them.
      folder: to make.
      count: links in all.
      classes: number of classes, dealt out in turn.

    Raises:
      ValueError: there are no photos.
    """
    if not photos:
        raise ValueError("--photos: the folder has no JPEG file")
    chosen = random.Random(0).sample(photos, len(photos))
    for index in range(count):
        photo = chosen[index % len(chosen)]
        link = folder / f"class_{index % classes:02d}" / f"{index:07d}_{photo.stem}.jpg"
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            link.hardlink_to(photo)
        except OSError:
            shutil.copyfile(photo, link)


def photos_title(arguments: argparse.Namespace) -> str:
    """Which photos a benchmark is of, for results: a size, `mixed sizes`, or a folder with its number of files."""
    if arguments.photos is not None:
        return f"{arguments.photos.absolute().name} ({len(list_photos(arguments.photos)):,} files)"
    return "mixed sizes" if arguments.size == MIXED else arguments.size


def prepare_environments(environments: Sequence[str]) -> None:
    """Installs the environments that are not there yet."""
    if environments:
        command = [str(_HERE / "environments.sh"), *environments]
        subprocess.run(command, check=True, env={**os.environ, "PYTHON": sys.executable})


def photo_options(description: str, *, count: int = 8000, rounds: int = 5) -> argparse.ArgumentParser:
    """The options that scripts about photos share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default=MIXED, help="of the photos, width x height; mixed: those of ImageNet")
    parser.add_argument("--photos", type=pathlib.Path, help="folder of real photos to take in place of made ones")
    parser.add_argument("--count", type=int, default=count, help="of photos")
    parser.add_argument("--rounds", type=int, default=rounds, help="timed rounds")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    return parser


def write_results(
    stem: pathlib.Path, *, runs: Sequence[Run], size: str, count: int, names: Sequence[str], reference: str
) -> str:
    """Writes the figures of the rounds so far.

    Args:
      stem: beginning of the files' paths.
      runs: so far.
      size: from `photos_title`.
      count: photos of a run.
      names: of the contestants.
      reference: the one that all are held against.

    Returns:
      The table, with what it was measured on and with.
    """
    machine = describe_machine()
    rows = summarize(runs, count=count, reference=reference)
    rounds = len({run.round for run in runs if run.peak_bytes is None})
    write_figures(
        stem.with_suffix(".json"),
        script=__file__,
        rounds=rounds,
        versions={name: list_versions(environment_python(CONTESTANTS[name].environment)) for name in names},
        size=size,
        count=count,
        summary=[dataclasses.asdict(row) for row in rows],
        runs=[dataclasses.asdict(run) for run in runs],
    )
    table = (
        f"{count} photos of {size}; medians of {rounds} interleaved rounds, start-up included.\n"
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB; "
        f"Python {machine['python']}; {machine['date']}.\n\n"
        f"{format_table(rows, reference=reference)}\n"
    )
    return table


def main() -> None:
    """Runs the rounds that the command line asks for."""
    parser = photo_options("Runs the benchmarks.")
    parser.add_argument("--memory_rounds", type=int, default=1, help="rounds that look at memory")
    parser.add_argument("--only", default=",".join(USUAL), help=f"some of {', '.join(CONTESTANTS)}")
    parser.add_argument("--reference", help="the one that all are held against (beam_tfrecords, or the first)")
    parser.add_argument("--name", help="of the results' files (size or folder, and count)")
    parser.add_argument("--chart", type=pathlib.Path, help="PNG to draw when all rounds are done")
    parser.add_argument("--cold", action="store_true", help="from and to the disk, past the page cache; takes root")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := set(names) - set(CONTESTANTS):
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; there are {', '.join(CONTESTANTS)}")
    reference = arguments.reference or ("beam_tfrecords" if "beam_tfrecords" in names else names[0])
    if reference not in names:
        parser.error(f"--reference: {reference} is not one of those that run")
    if arguments.cold and not os.access(_DROP_CACHES, os.W_OK):
        parser.error(f"--cold: {_DROP_CACHES} can't be written to; it takes Linux and root")

    needed = {environment for name in names if (environment := CONTESTANTS[name].environment)}
    prepare_environments(sorted(needed | ({"chart"} if arguments.chart else set())))
    photos = prepare_photos(arguments)
    for path in photos.glob("*/*.jpg"):
        path.read_bytes()  # into the page cache, for all alike

    of = arguments.photos.absolute().name if arguments.photos else arguments.size.replace(",", "-")
    stem = arguments.results / (arguments.name or f"{of}x{arguments.count}")
    runs: list[Run] = []
    for round_number in range(arguments.rounds + arguments.memory_rounds):
        # Each round begins with another one, so that none always runs after the same.
        turn = round_number % len(names)
        for name in names[turn:] + names[:turn]:
            run = run_once(
                name,
                photos=photos,
                count=arguments.count,
                round_number=round_number,
                timed=round_number < arguments.rounds,
                cold=arguments.cold,
            )
            runs.append(run)
            figure = f"{run.seconds:.2f} s" if run.peak_bytes is None else f"{run.peak_bytes / 1e6:.0f} MB"
            print(f"round {round_number + 1}  {name:22} {figure:>10}  {run.images} images", file=sys.stderr)
        table = write_results(
            stem,
            runs=runs,
            size=photos_title(arguments),
            count=arguments.count,
            names=names,
            reference=reference,
        )
    if arguments.chart:
        draw = [environment_python("chart"), str(_HERE / "chart.py"), f"{stem}.json", str(arguments.chart)]
        subprocess.run(draw, check=True)
    print(table, end="")


if __name__ == "__main__":
    main()
