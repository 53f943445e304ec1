"""The public Python API.

from beam_tfrecords import load
train = load("out/", "train", batch_size=32)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_pipelines.building import build
    from transforms.dataset import open_dataset
    from transforms.reading.tf_data import load
    from transforms.sink import WriteTFRecordShards

__all__ = ["WriteTFRecordShards", "build", "load", "open_dataset"]

# Imported when first used: reading needs no Beam, and building needs no TensorFlow.
_MODULES = {
    "WriteTFRecordShards": "transforms.sink",
    "build": "beam_pipelines.building",
    "load": "transforms.reading.tf_data",
    "open_dataset": "transforms.dataset",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
