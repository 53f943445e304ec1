"""Code that reads a dataset, for its report and its dataset card."""

from __future__ import annotations

from collections.abc import Mapping

from beam_tfrecords.dataset.dataset import StoredDataset

_TENSORFLOW = """\
from beam_tfrecords import load

{folder}
for example in load(FOLDER, {split}, shuffle=True):
    print(example)
"""
# Readers of shards without compression.
_OTHERS = {
    "TensorFlow Datasets": """\
import tensorflow_datasets as tfds

{folder}
for example in tfds.builder_from_directory(FOLDER).as_dataset(split={split}):
    print(example)
""",
    "PyTorch": """\
from torch.utils.data import DataLoader

from beam_tfrecords import open_dataset

{folder}
records = open_dataset(FOLDER).records({split})  # random access, no TensorFlow
for example in DataLoader(records, batch_size=None, shuffle=True, num_workers=2):
    print(example)
""",
    "JAX: Grain": """\
import grain

from beam_tfrecords import open_dataset

{folder}
records = open_dataset(FOLDER).records({split})
for example in grain.MapDataset.source(records).shuffle(seed=0):
    print(example)
""",
}


def reading_code(dataset: StoredDataset) -> Mapping[str, str]:
    """Returns framework -> code that reads the split called train, or else the first."""
    split = "train" if "train" in dataset.splits else min(dataset.splits)
    folder = f"FOLDER = {dataset.name!r}  # the folder of this page; gs:// and s3:// too"
    codes = {"TensorFlow: tf.data": _TENSORFLOW, **(_OTHERS if dataset.compression == "none" else {})}
    return {title: code.format(folder=folder, split=repr(split)) for title, code in codes.items()}
