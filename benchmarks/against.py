"""Compares the present code with an earlier commit: the same commands in turn, start-up included.

    python benchmarks/against.py b6062cf1
    python benchmarks/against.py b6062cf1 --only=photos,next --rounds=3

Both use the libraries of this environment. Above 1, the present code is faster.
"""

from __future__ import annotations

import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence

from figures import spreads_of_ratios, write_figures
from make_photos import photo_options, photos_title, prepare_photos
from reuse import change_photos
from small_samples import make_inputs, run

_PROJECT = pathlib.Path(__file__).resolve().parents[1]
_TINY, _ROWS = 20_000, 500_000
# Name -> title, words of the command, and what its input links to.
CASES: dict[str, tuple[str, str, str]] = {
    "six": ("six photos", "--output={out}/six --image_size=256", "six"),
    "first": ("photos", "--output={out}/versions --image_size=256 --versioned", "photos"),
    "next": ("the next version", "--output={out}/versions --image_size=256 --versioned", "changed"),
    "unchanged": ("the same again", "--output={out}/versions --image_size=256 --versioned", "changed"),
    "list": ("photos, dry run", "--output={out}/none --dry_run", "photos"),
    "png": (f"{_TINY:,} small PNG files", "--output={out}/png --image_encoding=png", "small/png"),
    "parquet": (f"{_ROWS:,} rows of a Parquet file", "--output={out}/parquet --layout=columns", "small/rows.parquet"),
}


def copy_code(commit: str | None, target: pathlib.Path) -> None:
    """Copies the package of a commit, or of the working tree, and compiles it."""
    if commit is None:
        shutil.copytree(_PROJECT / "beam_tfrecords", target / "beam_tfrecords")
    else:
        command = ["git", "-C", str(_PROJECT), "archive", commit, "beam_tfrecords"]
        packed = subprocess.run(command, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(target, filter="data")
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(target)], check=True)


def run_case(code: pathlib.Path, root: pathlib.Path, out: pathlib.Path, name: str) -> tuple[float, float]:
    """Runs a case; returns its seconds by the clock, and of the processors."""
    _, words, source = CASES[name]
    # The photos of both days have one path.
    link = root / f"input{pathlib.Path(source).suffix}"
    link.unlink(missing_ok=True)
    link.symlink_to(root / source)
    command = [sys.executable, "-m", "beam_tfrecords", "convert", f"--input={link}", "--name=same", "--no_report"]
    return run(*command, *words.format(out=out).split(), environment={**os.environ, "PYTHONPATH": str(code)})


def main() -> None:
    """Runs the rounds."""
    parser = photo_options(__doc__ or "")
    parser.add_argument("commit", help="to compare with")
    parser.add_argument("--only", default=",".join(CASES), help=f"some of {', '.join(CASES)}")
    arguments = parser.parse_args()
    names: Sequence[str] = arguments.only.split(",")
    if unknown := set(names) - set(CASES):
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; expected some of {', '.join(CASES)}")
    photos = prepare_photos(arguments)
    runs: dict[str, dict[str, list[tuple[float, float]]]] = {name: {"earlier": [], "now": []} for name in names}
    with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
        root = pathlib.Path(folder)
        copy_code(arguments.commit, root / "earlier")
        copy_code(None, root / "now")
        (root / "photos").symlink_to(photos)
        change_photos(photos, root / "changed")
        make_inputs(root / "small", images=_TINY, rows=_ROWS)
        for number, photo in enumerate(sorted(photos.rglob("*.jpg"))[:6]):
            (root / "six" / f"class_{number % 2}").mkdir(parents=True, exist_ok=True)
            shutil.copy(photo, root / "six" / f"class_{number % 2}")
        for number in range(arguments.rounds):
            for version in ("earlier", "now") if number % 2 else ("now", "earlier"):
                for name in names:
                    runs[name][version].append(run_case(root / version, root, root / f"out_{version}", name))
                shutil.rmtree(root / f"out_{version}", ignore_errors=True)
            for name in names:
                seconds = " against ".join(f"{runs[name][version][-1][0]:.2f} s" for version in ("now", "earlier"))
                print(f"round {number + 1}  {name:10} {seconds}", flush=True)
    for name in names:
        wall, processor = spreads_of_ratios(runs[name]["earlier"], runs[name]["now"])
        print(f"{CASES[name][0]:35} {wall}, by processor time {processor}")
    write_figures(
        arguments.results / f"against_{arguments.count}.json",
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=arguments.count,
        earlier=arguments.commit,
        titles={name: CASES[name][0] for name in names},
        runs=runs,
    )


if __name__ == "__main__":
    main()
