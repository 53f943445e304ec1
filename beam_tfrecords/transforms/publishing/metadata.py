"""Writes the files that describe a dataset to people and programs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.output.files import CARD, CROISSANT
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.transforms.images.image_spec import ResizeMode
from beam_tfrecords.transforms.publishing.card import write_card
from beam_tfrecords.transforms.publishing.croissant import write_croissant
from beam_tfrecords.transforms.publishing.dali_index import write_dali_indices
from beam_tfrecords.transforms.publishing.publication import Publication, WrittenFile
from beam_tfrecords.transforms.publishing.tfds_metadata import write_metadata


def write_files(
    publication: Publication, described: Mapping[str, Any], shards: Sequence[Shard], *, check: storage.Check
) -> dict[str, WrittenFile]:
    """Writes the files that describe a dataset; returns name -> written file.

    Args:
      publication: settings for publishing.
      described: the manifest without `files`.
      shards: shards of the dataset.
      check: as in `storage.open_new`.
    """
    dataset, image = Dataset(publication.output, described, "", ""), publication.image
    if size := described.get("array_size"):
        image = dataclasses.replace(image, image_size=size, resize_mode=ResizeMode.EXACT, upscale=True)
    metadata = write_metadata(
        name=publication.name,
        layout=publication.layout,
        image=image,
        class_names=publication.class_names,
        shards=shards,
        settings=described["spec"],
    )
    metadata |= {CARD: write_card(dataset), CROISSANT: write_croissant(dataset, metadata)}
    contents = sorted(metadata.items())
    written = storage.run_concurrently(
        publication.output, *(functools.partial(publication.write, *one, check=check) for one in contents)
    )
    files = dict(zip((name for name, _ in contents), written, strict=True))
    if described["spec"]["dali_index"]:
        files |= write_dali_indices(dataset.path, shards, write=publication.write)
    return files
