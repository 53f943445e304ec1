"""What a build will do, derived from its spec and its listing."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from beam_pipelines.notes import describe_request
from beam_pipelines.settings.definitions import SETTINGS
from transforms import storage
from transforms.blocks import BlockPlan, Convert
from transforms.build_spec import BuildSpec, Duplicates
from transforms.dataset import BUILD_FOLDER
from transforms.duplicates.search import DuplicateSearch
from transforms.examples.layouts import Layout
from transforms.images.image_spec import ImageEncoding, ImageSpec
from transforms.labels import ClassNames
from transforms.listing import Listing
from transforms.ordering import count_blocks
from transforms.parts import PartPolicy
from transforms.publishing import Publication
from transforms.samples import ConvertSample
from transforms.sources.source_spec import Skipped

_LIBRARIES = (
    "beam-tfrecords",
    "apache-beam",
    "Pillow",
    "simplejpeg",
    "opencv-python-headless",
    "numpy",
    "protobuf",
    "pyarrow",
    "blake3",
)
# Bytes of a stored pixel, all channels: what photos take as JPEG at quality 95, as PNG and as WebP. An estimate
# is enough: it decides how many blocks there are, not what they contain.
_BYTES_PER_PIXEL = {ImageEncoding.JPEG: 0.5, ImageEncoding.PNG: 1.8, ImageEncoding.WEBP: 0.3, ImageEncoding.KEEP: 0.5}
# Duplicates are dropped after the blocks, so a resumed build may drop others and keep its blocks.
_AFTER_BLOCKS = frozenset({"duplicates"})
# The index names the image files.
_IN_INDEX = frozenset({"input"})
_UNKNOWN_FILE_BYTES = 100_000
_ROW_BYTES = 200


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """Everything that the pipeline needs.

    Attributes:
      spec: the request, with its layout resolved.
      chunks: chunk files of the listing.
      blocks: split -> number of blocks.
      convert: converts one sample.
      block_plan: what the converting workers need.
      search: what the search for duplicates needs.
      publication: what publishing needs.
    """

    spec: BuildSpec
    chunks: tuple[str, ...]
    blocks: Mapping[str, int]
    convert: Convert
    block_plan: BlockPlan
    search: DuplicateSearch
    publication: Publication


def plan_build(
    spec: BuildSpec,
    *,
    folder: str,
    class_names: ClassNames,
    listing: Listing,
    skipped: Skipped,
    notes: Sequence[str] = (),
) -> BuildPlan:
    """Derives blocks, parts and what the manifest will say.

    Args:
      spec: the request, with its layout.
      folder: the build's folder for temporary files.
      class_names: the classes.
      listing: the listed samples.
      skipped: files that are not samples.
      notes: what may be meant but is odd, one line each.
    """
    layout = spec.layout or Layout(())
    sizes = {
        split: estimate_output(spec.image, layout, samples=samples, source_bytes=listing.source_bytes[split])
        for split, samples in listing.samples.items()
    }
    policies = {
        split: PartPolicy.plan(
            shard_size=spec.shard_size, num_shards=spec.num_shards, samples=samples, output_bytes=sizes[split]
        )
        for split, samples in listing.samples.items()
    }
    return BuildPlan(
        spec=spec,
        chunks=tuple(listing.chunks),
        blocks={
            split: count_blocks(samples=samples, output_bytes=sizes[split])
            for split, samples in listing.samples.items()
        },
        block_plan=BlockPlan(
            folder=folder,
            seed=spec.seed,
            policies=policies,
            compression=spec.compression,
            read_images=layout.needs_image,
            max_file_size=spec.max_file_size,
            image_timeout=spec.image_timeout,
        ),
        convert=ConvertSample(spec.image, layout, class_names),
        search=DuplicateSearch(
            folder=folder,
            listed=dict(listing.samples),
            drops=spec.duplicates is Duplicates.DROP,
            layout=layout,
            class_names=class_names.names,
            compression=spec.compression,
        ),
        publication=Publication(
            output=spec.output,
            folder=folder,
            name=spec.name,
            layout=layout,
            image=spec.image,
            class_names=class_names.names,
            listed=dict(listing.samples),
            max_failures=spec.max_failures,
            duplicates=spec.duplicates,
            facts={
                "skipped": {
                    kind: {"files": count, "examples": skipped.examples[kind]}
                    for kind, count in sorted(skipped.counts.items())
                },
                "notes": [*notes, *describe_request(spec)],
                "spec": spec.to_json(),
                "input_fingerprint": listing.fingerprint,
                "versions": library_versions(),
            },
        ),
    )


def build_folder(spec: BuildSpec, input_fingerprint: str) -> str:
    """The build's folder for temporary files, named by all that decides its blocks.

    A build resumes from the blocks it finds there, so no other build may have the same name.
    """
    words: dict[str, Any] = {
        name: value
        for name, value in spec.to_json().items()
        if (SETTINGS[name].decides_bytes or name in _IN_INDEX) and name not in _AFTER_BLOCKS
    }
    decisive = json.dumps([words, input_fingerprint, library_versions()], sort_keys=True)
    identity = hashlib.blake2b(decisive.encode(), digest_size=8).hexdigest()
    return storage.join(spec.output, BUILD_FOLDER, identity)


def estimate_output(image: ImageSpec, layout: Layout, *, samples: int, source_bytes: int) -> int:
    """The approximate bytes of the records of some samples."""
    if not layout.needs_image:
        return samples * _ROW_BYTES
    if image.image_size is None:
        return source_bytes or samples * _UNKNOWN_FILE_BYTES
    # A photo's longer side is about 4/3 of its shorter one.
    pixels = image.image_size[0] * image.image_size[1] * 4 / 3
    bytes_per_pixel = _BYTES_PER_PIXEL.get(image.image_encoding, image.channels or 3)
    return int(samples * (pixels * bytes_per_pixel + _ROW_BYTES))


def library_versions() -> dict[str, str]:
    """Versions of the libraries that decide the output."""
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }
