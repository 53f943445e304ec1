"""Reads datasets, and the public Python API.

from beam_tfrecords import load
train = load("out/", "train", batch_size=32)
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beam_tfrecords.errors import BuildError, RequestError

if TYPE_CHECKING:
    from beam_pipelines.building import build
    from beam_pipelines.verify import verify_dataset as verify
    from beam_tfrecords.dataset import open_dataset
    from beam_tfrecords.reading.tf_data import load
    from transforms.sink import WriteTFRecordShards

__all__ = ["BuildError", "RequestError", "WriteTFRecordShards", "build", "load", "open_dataset", "verify"]

# Imported when first used: reading needs no Beam, and building needs no TensorFlow.
_OBJECTS = {
    "WriteTFRecordShards": "transforms.sink:WriteTFRecordShards",
    "build": "beam_pipelines.building:build",
    "load": "beam_tfrecords.reading.tf_data:load",
    "open_dataset": "beam_tfrecords.dataset:open_dataset",
    "verify": "beam_pipelines.verify:verify_dataset",
}

# Package -> the packages that it is made of, which a user's own modules may hide.
_PACKAGES = {
    "beam_pipelines": ("transforms", "beam_pipelines"),
    "beam_tfrecords": (),
    "transforms": ("transforms",),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("beam-tfrecords")
    if name not in _OBJECTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _OBJECTS[name].partition(":")
    for package in _PACKAGES[module.partition(".")[0]]:
        _refuse_foreign(package, name)
    # Beam warns on import of extras that are not installed.
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        return getattr(importlib.import_module(module), attribute)
    finally:
        logging.disable(disabled)


def _refuse_foreign(package: str, name: str) -> None:
    """Names a module of the user's that hides one of our packages; `transforms.py` is a common name."""
    spec = importlib.util.find_spec(package)
    ours = Path(__file__).resolve().parents[1] / package / "__init__.py"
    found = spec.origin if spec else None
    if found is None or Path(found).resolve() != ours:
        raise ImportError(
            f"beam_tfrecords.{name} needs its own package {package!r}, but Python finds {found or 'no such package'} "
            f"first; rename that file, or run the script from another folder"
        )
