"""What a build will do, worked out from its spec and its listing."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping

from transforms import storage
from transforms.blocks import BlockPlan
from transforms.dataset import BUILD_FOLDER
from transforms.duplicates.search import DuplicateSearch
from transforms.examples.layouts import Layout
from transforms.images.spec import ImageEncoding, ImageSpec
from transforms.isolation import Convert
from transforms.labels import ClassNames
from transforms.listing import Listing
from transforms.ordering import count_blocks
from transforms.parts import PartPolicy
from transforms.publication import Publication
from transforms.samples import ConvertSample
from transforms.sources.spec import Skipped
from transforms.spec import BuildSpec, Duplicates

LIBRARIES = (
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
# Bytes of a stored pixel, all channels: what photos take as JPEG at quality 95, as PNG and as WebP. An
# estimate is enough: it decides how many blocks there are, not what is in them.
_BYTES_PER_PIXEL = {ImageEncoding.JPEG: 0.5, ImageEncoding.PNG: 1.8, ImageEncoding.WEBP: 0.3, ImageEncoding.KEEP: 0.5}
# A build may be given another chance with more failures or duplicates allowed, and keeps what it has done.
_NOT_DECISIVE = frozenset({"output", "max_failures", "duplicates"})
# In a build's folder: shards that are made of their parts' own files.
MERGED = "shards"
_UNKNOWN_FILE_BYTES = 100_000
_ROW_BYTES = 200


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """Everything that the pipeline needs.

    Attributes:
      spec: the request, with its layout resolved.
      chunks: the listing's chunk files.
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

    def merging_folder(self, processes: int) -> str | None:
        """Where shards are made of the parts' own files, so that the disk holds no record twice; None to copy them.

        Args:
          processes: of this machine that do the work: they compose each shard once, which no cluster promises.
        """
        if not processes or storage.has_scheme(self.spec.output) or self.search.reads_records:
            return None
        return storage.join(self.block_plan.folder, MERGED)


def plan_build(
    spec: BuildSpec, *, class_names: ClassNames, listing: Listing, chunks: list[str], skipped: Skipped
) -> BuildPlan:
    """Works out blocks, parts and what the manifest will say.

    Args:
      spec: the request, with its layout.
      class_names: the classes.
      listing: what was listed.
      chunks: the listing's local chunk files.
      skipped: files that are no samples.
    """
    layout = spec.layout or Layout(())
    versions = library_versions()
    folder = storage.join(spec.output, BUILD_FOLDER, build_id(spec, listing, versions))
    sizes = {
        split: estimate_output(spec.image, layout, samples=samples, source_bytes=listing.bytes[split])
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
        chunks=tuple(storage.join(folder, "listing", storage.basename(chunk)) for chunk in chunks),
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
                "spec": spec.to_json(),
                "input_fingerprint": listing.fingerprint,
                "versions": versions,
            },
        ),
    )


def estimate_output(image: ImageSpec, layout: Layout, *, samples: int, source_bytes: int) -> int:
    """About how many bytes the records of some samples will take."""
    if not layout.needs_image:
        return samples * _ROW_BYTES
    if image.size is None:
        return source_bytes or samples * _UNKNOWN_FILE_BYTES
    # A photo's longer side is about 4/3 of its shorter one.
    pixels = image.size[0] * image.size[1] * 4 / 3
    return int(samples * (pixels * _BYTES_PER_PIXEL.get(image.encoding, image.channels or 3) + _ROW_BYTES))


def build_id(spec: BuildSpec, listing: Listing, versions: Mapping[str, str]) -> str:
    """Names the build by all that decides its blocks, so that only the same build goes on from them."""
    words = {name: value for name, value in spec.to_json().items() if name not in _NOT_DECISIVE}
    decisive = json.dumps([words, listing.fingerprint, versions], sort_keys=True)
    return hashlib.blake2b(decisive.encode(), digest_size=8).hexdigest()


def library_versions() -> dict[str, str]:
    """Versions of the libraries that have a hand in the output."""
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in LIBRARIES},
    }
