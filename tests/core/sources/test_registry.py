"""Which source reads a file, and what that imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from beam_tfrecords.transforms.sources.registry import source_of_file
from tests.each import each
from tests.writers import save


@each(
    "path, name",
    [
        ("a.csv", "csv"),
        ("A.TSV", "csv"),
        ("a.b.parquet", "parquet"),
        ("gs://bucket/a.tar.gz", "tar"),
        ("a.TGZ", "tar"),
        ("a.tar.zst", "tar"),
        ("a-train.tfrecord-00000-of-00012", "tfrecord"),
        ("a.zip", "zip"),
        ("a.NPZ", "numpy"),
        ("train-images-idx3-ubyte.gz", "idx"),
        ("t10k-labels.idx1-ubyte", "idx"),
        ("data_batch_1.bin", "cifar"),
        ("a.gz", None),
        ("a.tar.lz4", None),
        ("tar", None),
    ],
)
def test_the_extension_of_a_file_gives_its_source(path, name):
    assert source_of_file(path) == name


@pytest.mark.parametrize("name", ["photos", "m.csv"])
def test_only_parquet_imports_pyarrow(tmp_path, name):
    save(tmp_path / "photos/cat/1.jpg", "pixels")
    save(tmp_path / "m.csv", "image,label\nphotos/cat/1.jpg,cat\n")
    script = (
        "import sys\n"
        "from tests.core.opened_sources import open_source\n"
        f"samples = list(open_source({str(tmp_path / name)!r}).samples())\n"
        "print(len(samples), 'pyarrow' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "1 False\n"
