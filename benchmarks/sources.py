"""What it costs to read the same photos from archives and from other datasets instead of from a folder.

    python benchmarks/sources.py                              8,000 photos like ImageNet's, 5 rounds
    python benchmarks/sources.py --count=40000 --rounds=1     archives of 4 GB

In every round, the same request for each form, beginning with another one; then a round that looks at the memory. The
figures go to --results; `tables.py` makes the table of them.
"""

from __future__ import annotations

import io
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from contestants import count_images
from figures import write_figures
from peak_memory import measure
from run import photo_options, photos_title, prepare_photos

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")
_FILES = 8
# As many as Hugging Face's datasets puts into one, for images of this size.
_ROWS_OF_A_GROUP = 100


def _open_tar(path: pathlib.Path) -> tarfile.TarFile:
    # Photos are not made smaller by a higher level.
    return tarfile.open(path, "w:gz", compresslevel=1) if path.suffix == ".gz" else tarfile.open(path, "w")


def _write_tar(path: pathlib.Path, photos: Sequence[pathlib.Path]) -> None:
    with _open_tar(path) as archive:
        for photo in photos:
            archive.add(photo, f"{photo.parent.name}/{photo.name}")


def _write_webdataset(path: pathlib.Path, photos: Sequence[pathlib.Path]) -> None:
    with tarfile.open(path, "w") as archive:
        for photo in photos:
            archive.add(photo, f"{photo.parent.name}_{photo.name}")
            name = photo.parent.name.encode()
            member = tarfile.TarInfo(f"{photo.parent.name}_{photo.stem}.txt")
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name))


def _write_zip(path: pathlib.Path, photos: Sequence[pathlib.Path]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for photo in photos:
            archive.write(photo, f"{photo.parent.name}/{photo.name}")


def _write_parquet(path: pathlib.Path, photos: Sequence[pathlib.Path], compression: str) -> None:
    images = [{"bytes": photo.read_bytes(), "path": photo.name} for photo in photos]
    table = pa.table({"image": images, "label": [photo.parent.name for photo in photos]})
    pq.write_table(table, path, compression=compression, row_group_size=_ROWS_OF_A_GROUP)


def _write_plain_parquet(path: pathlib.Path, photos: Sequence[pathlib.Path]) -> None:
    _write_parquet(path, photos, "none")


def _write_snappy_parquet(path: pathlib.Path, photos: Sequence[pathlib.Path]) -> None:
    _write_parquet(path, photos, "snappy")


# Title -> the names of its files, and what writes one.
_FORMS: Mapping[str, tuple[str, Callable[[pathlib.Path, Sequence[pathlib.Path]], None]]] = {
    "tar": ("{}.tar", _write_tar),
    "tar, gzip": ("{}.tar.gz", _write_tar),
    "zip": ("{}.zip", _write_zip),
    "WebDataset": ("{}.tar", _write_webdataset),
    "Parquet": ("{}.parquet", _write_plain_parquet),
    "Parquet, snappy": ("{}.parquet", _write_snappy_parquet),
}


def make_inputs(photos: pathlib.Path, folder: pathlib.Path) -> dict[str, list[str]]:
    """Writes the photos in every form; title -> flags of the request."""
    # In the order of their names in each class, and all classes in each file.
    paths = sorted(photos.rglob("*.jpg"), key=lambda path: (path.name, path.parent.name))
    inputs = {"folder": [f"--input={photos}"]}
    for title, (name, write) in _FORMS.items():
        place = folder / title.replace(", ", "_")
        place.mkdir()
        for number in range(_FILES):
            write(place / name.format(f"{number:03}"), paths[number::_FILES])
        inputs[title] = [f"--input={place / name.format('*')}"]
    inputs["WebDataset"].append("--label_column=txt")
    place = folder / "records"
    command = [str(_COMMAND), "convert", *inputs["folder"], f"--output={place}", "--image_encoding=keep"]
    subprocess.run([*command, f"--num_shards={_FILES}"], check=True, capture_output=True)
    inputs["TFRecord"] = ["--source=tfrecord", f"--input={place}"]
    return inputs


def convert(flags: Sequence[str], *, count: int, folder: pathlib.Path, sample_memory: bool) -> tuple[float, int]:
    """Runs one request; returns seconds, start-up included, and peak bytes (0 if not sampled).

    Raises:
      RuntimeError: it failed, or lost photos; the message ends with the end of its log.
    """
    with tempfile.TemporaryDirectory(dir=folder) as place, open(pathlib.Path(place) / "log", "w+b") as log:
        output = pathlib.Path(place) / "output"
        command = [str(_COMMAND), "convert", *flags, f"--output={output}", "--name=photos", "--image_size=256"]
        done = measure(command, sample_memory=sample_memory, log=log)
        if done.exit_code or count_images(output) != count:
            log.seek(0)
            raise RuntimeError(f"{' '.join(command)}: {log.read()[-4000:].decode(errors='replace')}")
        return done.seconds, done.peak_bytes


def main() -> None:
    """Runs the rounds and prints the medians."""
    arguments = photo_options(__doc__ or "").parse_args()
    photos = prepare_photos(arguments)
    with tempfile.TemporaryDirectory(dir=photos.parent) as name:
        folder = pathlib.Path(name)
        inputs = make_inputs(photos, folder)
        seconds: dict[str, list[float]] = {title: [] for title in inputs}
        peaks: dict[str, int] = {}
        for number in range(arguments.rounds + 1):
            titles = list(inputs)
            turn = number % len(titles)
            is_timed = number < arguments.rounds
            for title in titles[turn:] + titles[:turn]:
                spent, peak = convert(inputs[title], count=arguments.count, folder=folder, sample_memory=not is_timed)
                if is_timed:
                    seconds[title].append(spent)
                else:
                    peaks[title] = peak
                print(f"round {number + 1}  {title:16} {spent:7.2f} s {peak / 1e6:5.0f} MB", flush=True)
    for title, times in seconds.items():
        ratio = statistics.median(base / time for base, time in zip(seconds["folder"], times, strict=True))
        print(f"{title:16} {statistics.median(times):7.2f} s  {ratio:.2f} of the folder's rate")
    write_figures(
        arguments.results / f"sources_{arguments.count}.json",
        script=__file__,
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=arguments.count,
        seconds=seconds,
        peak_bytes=peaks,
    )


if __name__ == "__main__":
    main()
