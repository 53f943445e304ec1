"""Who takes part: each contestant is a command line that converts a folder of class folders."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence

import pyarrow.parquet as pq
from figures import COMMAND

_HERE = pathlib.Path(__file__).resolve().parent
_PEERS = _HERE / "peers"
_RECORD_HEADER = struct.Struct("<Q4x")
_RECORD_FOOTER_BYTES = 4
_CHUNK_ITEMS = struct.Struct("<I")

# Beam's and Ray's worker processes look here for what the scripts import; the rest spares the peers
# start-up work that has nothing to do with converting, such as asking the network for a newer version.
ENVIRONMENT = {
    "PYTHONPATH": str(_PEERS),
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "LITDATA_DISABLE_VERSION_CHECK": "1",
    "NO_ALBUMENTATIONS_UPDATE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "WANDB_MODE": "disabled",
}


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One way to convert photos.

    Attributes:
      title: for the table and the chart.
      environment: the folder below .venvs that it runs in; None is the interpreter of this process.
      make_command: (folder of photos, folder to write) -> program and arguments.
    """

    title: str
    environment: str | None
    make_command: Callable[[pathlib.Path, pathlib.Path], list[str]]


def environment_python(name: str | None) -> str:
    """The interpreter of an environment of `environments.sh`, or of this process."""
    return str(_HERE / ".venvs" / name / "bin" / "python") if name else sys.executable


def prepare_environments(names: Sequence[str]) -> None:
    """Installs the environments of `environments.sh` that are missing."""
    if names:
        command = [str(_HERE / "environments.sh"), *names]
        subprocess.run(command, check=True, env={**os.environ, "PYTHON": sys.executable})


def _script(title: str, environment: str | None, script: str, *arguments: str) -> Contestant:
    def make_command(photos: pathlib.Path, output: pathlib.Path) -> list[str]:
        python = environment_python(environment)
        return [python, str(_PEERS / script), str(photos), str(output), *arguments]

    return Contestant(title, environment, make_command)


def _convert(photos: pathlib.Path, output: pathlib.Path) -> list[str]:
    return [COMMAND, "convert", f"--input={photos}", f"--output={output}", "--overwrite", "--image_size=256"]


_WORKERS = str(os.cpu_count())

CONTESTANTS = {
    "pillow": _script("bare Pillow pool, no framework", None, "bare_pillow.py", _WORKERS),
    "beam_tfrecords": Contestant("beam-tfrecords", None, _convert),
    "img2dataset": _script("img2dataset (tar files)", "img2dataset", "img2dataset_files.py", _WORKERS),
    "tfds_generator": _script("TFDS, generator", "tfds", "tfds_builder.py"),
    "tfds_beam": _script("TFDS, Beam writer", "tfds", "tfds_builder.py", _WORKERS),
    "ray_data": _script("Ray Data", "ray", "ray_data.py", _WORKERS),
    "litdata": _script("litData optimize", "litdata", "litdata_optimize.py", _WORKERS),
    "datasets": _script("Hugging Face datasets (Parquet files)", "datasets", "datasets_map.py", _WORKERS),
    "daft": _script("Daft (Parquet files)", "daft", "daft_images.py"),
    "pillow_draft": _script("bare Pillow pool with draft()", None, "bare_pillow.py", _WORKERS, "--codec=draft"),
    "own_codec": _script("bare pool with our codec", None, "bare_pillow.py", _WORKERS, "--codec=own"),
}


def count_images(output: pathlib.Path) -> int:
    """Counts the images that a contestant has written, in files of every kind."""
    count = 0
    for path in output.rglob("*"):
        # Ray names its TFRecord files .tar too.
        if path.suffix == ".tar" and tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                count += sum(name.endswith(".jpg") for name in archive.getnames())
        elif path.suffix == ".tar" or ".tfrecord" in path.name:
            count += _count_records(path)
        elif path.suffix == ".parquet":
            count += _count_rows(path)
        elif path.suffix == ".bin" and path.name.startswith("chunk-"):
            count += _count_items(path)
    return count


def _count_rows(path: pathlib.Path) -> int:
    """Rows of a Parquet file with an image; 0 for our index files, which have no column of that name."""
    with pq.ParquetFile(path) as file:
        if "image" not in file.schema_arrow.names:
            return 0
        return sum(len(batch) - batch.column(0).null_count for batch in file.iter_batches(columns=["image"]))


def _count_items(path: pathlib.Path) -> int:
    """Items of a litData chunk, which begins with their number."""
    with open(path, "rb") as file:
        (count,) = _CHUNK_ITEMS.unpack(file.read(_CHUNK_ITEMS.size))
    return int(count)


def _count_records(path: pathlib.Path) -> int:
    count = 0
    with open(path, "rb") as file:
        while header := file.read(_RECORD_HEADER.size):
            (length,) = _RECORD_HEADER.unpack(header)
            file.seek(length + _RECORD_FOOTER_BYTES, os.SEEK_CUR)
            count += 1
    return count
