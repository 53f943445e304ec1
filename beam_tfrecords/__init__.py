"""The public Python API: builds datasets and reads them.

from beam_tfrecords import load
train = load("out/", "train", batch_size=32)
"""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
from typing import TYPE_CHECKING, Any

from beam_tfrecords.errors import BuildError, LimitError, OutputLockedError, RequestError, naming_end
from beam_tfrecords.quiet_beam import beam_logs_from

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.build.build import build
    from beam_tfrecords.beam_pipelines.build.build import build as convert
    from beam_tfrecords.beam_pipelines.build.dry_run import Plan, plan
    from beam_tfrecords.beam_pipelines.build.sample_transforms import ConvertSamples, ReadSamples
    from beam_tfrecords.beam_pipelines.build.write_dataset import WriteDataset
    from beam_tfrecords.beam_pipelines.dataset import Dataset, open_dataset
    from beam_tfrecords.beam_pipelines.verify import verify_dataset as verify
    from beam_tfrecords.dataset.manifest import Shard
    from beam_tfrecords.reading.mixing import mix
    from beam_tfrecords.reading.records import Records
    from beam_tfrecords.reading.tf_data import load
    from beam_tfrecords.transforms.mapping.sample import Sample
    from beam_tfrecords.transforms.mapping.sample_objects import SampleObjects
    from beam_tfrecords.transforms.sink import WriteTFRecordShards

__all__ = [
    "BuildError",
    "ConvertSamples",
    "Dataset",
    "LimitError",
    "OutputLockedError",
    "Plan",
    "ReadSamples",
    "Records",
    "RequestError",
    "Sample",
    "SampleObjects",
    "Shard",
    "WriteDataset",
    "WriteTFRecordShards",
    "build",
    "convert",
    "load",
    "mix",
    "open_dataset",
    "plan",
    "verify",
]

# Warnings are also printed as messages; without this handler, an unconfigured `logging` would show them twice.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# Imported on first use: reading needs no Beam, and building needs no TensorFlow.
_OBJECTS = {
    "ConvertSamples": "beam_tfrecords.beam_pipelines.build.sample_transforms:ConvertSamples",
    "Dataset": "beam_tfrecords.beam_pipelines.dataset:Dataset",
    "Plan": "beam_tfrecords.beam_pipelines.build.dry_run:Plan",
    "ReadSamples": "beam_tfrecords.beam_pipelines.build.sample_transforms:ReadSamples",
    "Records": "beam_tfrecords.reading.records:Records",
    "Sample": "beam_tfrecords.transforms.mapping.sample:Sample",
    "SampleObjects": "beam_tfrecords.transforms.mapping.sample_objects:SampleObjects",
    "Shard": "beam_tfrecords.dataset.manifest:Shard",
    "WriteDataset": "beam_tfrecords.beam_pipelines.build.write_dataset:WriteDataset",
    "WriteTFRecordShards": "beam_tfrecords.transforms.sink:WriteTFRecordShards",
    "build": "beam_tfrecords.beam_pipelines.build.build:build",
    "convert": "beam_tfrecords.beam_pipelines.build.build:build",
    "load": "beam_tfrecords.reading.tf_data:load",
    "mix": "beam_tfrecords.reading.mixing:mix",
    "open_dataset": "beam_tfrecords.beam_pipelines.dataset:open_dataset",
    "plan": "beam_tfrecords.beam_pipelines.build.dry_run:plan",
    "verify": "beam_tfrecords.beam_pipelines.verify:verify_dataset",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("beam-tfrecords")
    if name not in _OBJECTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _OBJECTS[name].partition(":")
    with naming_end(), beam_logs_from(logging.CRITICAL):
        return getattr(importlib.import_module(module), attribute)
