"""The blocks of a build, and what they are made with."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beam_tfrecords.beam_pipelines.build.output.previous import Previous, plan_reuse, record_settings
from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.group_size import GROUP_BYTES
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.listing.listing import Listing
from beam_tfrecords.transforms.listing.ordering import count_blocks
from beam_tfrecords.transforms.mapping.map_sample import MapSample
from beam_tfrecords.transforms.parts import PartPolicy
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.source_spec import Fingerprint
from beam_tfrecords.transforms.sources.stored_records import StoredRecords

if TYPE_CHECKING:
    from beam_tfrecords.transforms.blocks.filtering import Condition

# Bytes of a stored pixel, all channels: what photos take as JPEG at quality 95, as PNG and as WebP. An estimate
# is enough: it decides how many blocks there are, not what they contain.
_BYTES_PER_PIXEL = {ImageEncoding.JPEG: 0.5, ImageEncoding.PNG: 1.8, ImageEncoding.WEBP: 0.3, ImageEncoding.KEEP: 0.5}
# Of an encoded image beside its pixels: what the tables of a JPEG take decides where images are tiny.
_HEADER_BYTES = {ImageEncoding.JPEG: 620, ImageEncoding.KEEP: 620}
_UNKNOWN_FILE_BYTES = 100_000
_ROW_BYTES = 200


@dataclasses.dataclass(frozen=True)
class Work:
    """What the blocks of a build are made with; its digest names their folder.

    Attributes:
      blocks: split -> number of blocks.
      convert: converts one sample.
      block_plan: what the converting workers need, without folder and launch.
      nothing_reused_because: why no record of an earlier dataset can be taken over; "" if some can.
    """

    blocks: Mapping[str, int]
    convert: ConvertSample
    block_plan: BlockPlan
    nothing_reused_because: str


def plan_work(
    spec: BuildSpec,
    *,
    class_names: ClassNames,
    listing: Listing,
    versions: Mapping[str, str],
    earlier: Previous,
    last_member_wins: bool = False,
    records: StoredRecords | None = None,
) -> Work:
    """Derives blocks, and what makes them.

    Args:
      spec: the request, with its layout.
      class_names: the classes.
      listing: the listed samples.
      versions: library -> version.
      earlier: the datasets that the build looks back to.
      last_member_wins, records: as in `Source`.
    """
    layout = spec.layout or Layout(())
    blocks, policies = _plan_blocks(spec, layout, listing)
    reuse, nothing_reused_because = plan_reuse(spec, earlier.reused, versions=versions, blocks=blocks)
    return Work(
        blocks=blocks,
        convert=ConvertSample(
            spec.image,
            layout,
            class_names,
            settings=_hash_settings(record_settings(spec.to_json(), versions)),
            invalid_boxes=spec.invalid_boxes,
            records=records.layout if records else None,
            keeps_stored=records is not None and records.fits(spec.image),
        ),
        block_plan=BlockPlan(
            folder="",
            seed=spec.seed,
            policies=policies,
            compression=spec.compression,
            read_images=layout.needs_image,
            max_file_size=spec.max_file_size,
            image_timeout=spec.image_timeout,
            max_image_memory=spec.image.max_image_memory if layout.needs_image else 0,
            hashes_files=spec.source.fingerprint is Fingerprint.CONTENT,
            reuse=reuse,
            libraries=versions,
            launcher=socket.gethostname(),
            group_rows=spec.source.group_rows,
            last_member_wins=last_member_wins,
            map=MapSample(spec.map, spec.image, layout, records.layout if records else None) if spec.map else None,
            where=_find_condition(spec.where, layout),
            # All parts of a small build are one group.
            most_index_bytes=GROUP_BYTES // max(1, sum(blocks.values())),
        ),
        nothing_reused_because=nothing_reused_because,
    )


def _find_condition(where: str | None, layout: Layout) -> Condition | None:
    if not where:
        return None
    # Most requests do without the parts of pyarrow that it needs, which take a twentieth of a second.
    from beam_tfrecords.transforms.blocks.filtering import Condition

    return Condition(where, layout)


def _plan_blocks(spec: BuildSpec, layout: Layout, listing: Listing) -> tuple[dict[str, int], dict[str, PartPolicy]]:
    """Split -> number of blocks, and when their parts end."""
    blocks, policies = {}, {}
    all_source_bytes = sum(listing.source_bytes.values())
    for split, samples in listing.samples.items():
        source_bytes = listing.source_bytes[split]
        size = estimate_output(spec.image, layout, samples=samples, source_bytes=source_bytes)
        blocks[split] = count_blocks(
            samples=samples,
            output_bytes=size,
            ref_bytes=listing.ref_bytes[split],
            of_samples=listing.total,
            source_bytes=all_source_bytes,
            is_mapped=spec.map is not None,
        )
        policies[split] = PartPolicy.plan(
            compression=spec.compression,
            shard_size=spec.shard_size,
            num_shards=spec.num_shards,
            samples=samples,
            output_bytes=size,
        )
    return blocks, policies


def _hash_settings(settings: Mapping[str, Any]) -> str:
    # Indices hold it in every `sample_hash`, so it stays as it is.
    return hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=8).hexdigest()


def estimate_output(image: ImageSpec, layout: Layout, *, samples: int, source_bytes: int) -> int:
    """The approximate bytes of the records of some samples."""
    if not layout.needs_image:
        return samples * _ROW_BYTES
    if image.image_size is None:
        return source_bytes or samples * _UNKNOWN_FILE_BYTES
    # A photo's longer side is about 4/3 of its shorter one.
    pixels = image.image_size[0] * image.image_size[1] * 4 / 3
    bytes_per_pixel = _BYTES_PER_PIXEL.get(image.image_encoding, image.channels or 3)
    header_bytes = _HEADER_BYTES.get(image.image_encoding, 0)
    return int(samples * (pixels * bytes_per_pixel * image.bit_depth / 8 + header_bytes + _ROW_BYTES))
