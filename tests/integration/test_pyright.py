"""The Python passages of the pages are clean for pyright, which reads the types of the public API strictly."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.docs.pages import PROJECT
from tests.docs.typed_passages import errors_in, write_passages

pytestmark = pytest.mark.nightly

# Libraries with few or wrong types: everything in them may be anything, so that what remains is about our own types.
UNTYPED = (
    "apache_beam",
    "apache_beam.ml",
    "apache_beam.ml.inference",
    "apache_beam.ml.inference.base",
    "grain",
    "h5py",
    "keras",
    "lmdb",
    "pandas",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "scipy",
    "scipy.io",
    "tensorflow",
    "tensorflow_datasets",
    "torch",
    "torch.utils",
    "torch.utils.data",
)
CONFIG = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.10",
    "extraPaths": [str(PROJECT)],
    "stubPath": "stubs",
    "exclude": ["stubs"],
    # Pages show names, join Beam's transforms by `|`, and make lists in two steps. A lambda has no annotations.
    "reportUnusedImport": False,
    "reportUnusedExpression": False,
    "reportConstantRedefinition": False,
    "reportUnknownLambdaType": False,
}


def test_the_passages_have_the_types_of_the_api(tmp_path):
    pytest.importorskip("pyright")
    for name in UNTYPED:
        folder = tmp_path.joinpath("stubs", *name.split("."))
        folder.mkdir(parents=True)
        (folder / "__init__.pyi").write_text("from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n")
    write_passages(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(CONFIG))
    words = ["-m", "pyright", "--project", tmp_path, "--pythonpath", sys.executable]
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    errors, wrong = errors_in(ran.stdout)
    assert errors == []
    assert len(wrong) == 1, ran.stdout + ran.stderr
