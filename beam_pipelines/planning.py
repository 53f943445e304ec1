"""What a build will do, derived from its spec and its listing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.notes import describe_request
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, fill_spec
from beam_tfrecords.beam_pipelines.versioning import NOTHING, Earlier, plan_reuse, record_settings
from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch
from beam_tfrecords.transforms.identity import digest
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.libraries import library_versions
from beam_tfrecords.transforms.listing.listing import Listing
from beam_tfrecords.transforms.listing.ordering import count_blocks
from beam_tfrecords.transforms.parts import PartPolicy
from beam_tfrecords.transforms.publishing.changes import History
from beam_tfrecords.transforms.publishing.publish import Publication
from beam_tfrecords.transforms.request.build_spec import BuildSpec, Duplicates
from beam_tfrecords.transforms.shards.plan import ShardPolicy
from beam_tfrecords.transforms.sources.source_spec import Fingerprint, Skipped
from beam_tfrecords.transforms.workspace.build_folder import Workspace

# Bytes of a stored pixel, all channels: what photos take as JPEG at quality 95, as PNG and as WebP. An estimate
# is enough: it decides how many blocks there are, not what they contain.
_BYTES_PER_PIXEL = {ImageEncoding.JPEG: 0.5, ImageEncoding.PNG: 1.8, ImageEncoding.WEBP: 0.3, ImageEncoding.KEEP: 0.5}
# Duplicates are dropped after the blocks, so a resumed build may drop others and keep its blocks.
_AFTER_BLOCKS = frozenset({"duplicates"})
# What is listed depends on them too.
_OF_LISTING = frozenset({"input", "fingerprint"})
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


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """Everything that the pipeline needs.

    Attributes:
      spec: the request, with its layout resolved.
      blocks: split -> number of blocks.
      convert: converts one sample.
      block_plan: what the converting workers need.
      search: what the search for duplicates needs.
      publication: what publishing needs.
      earlier: the datasets that the build looks back to.
    """

    spec: BuildSpec
    blocks: Mapping[str, int]
    convert: ConvertSample
    block_plan: BlockPlan
    search: DuplicateSearch
    publication: Publication
    earlier: Earlier = NOTHING


def plan_work(
    spec: BuildSpec,
    *,
    class_names: ClassNames,
    listing: Listing,
    versions: Mapping[str, str],
    earlier: Earlier,
    last_member_wins: bool = False,
) -> Work:
    """Derives blocks, and what makes them.

    Args:
      spec: the request, with its layout.
      class_names: the classes.
      listing: the listed samples.
      versions: library -> version.
      earlier: the datasets that the build looks back to.
      last_member_wins: as in `Source`.
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
    blocks = {
        split: count_blocks(samples=samples, output_bytes=sizes[split], source_bytes=listing.source_bytes[split])
        for split, samples in listing.samples.items()
    }
    reuse, nothing_reused_because = plan_reuse(spec, earlier.reused, versions=versions, blocks=blocks)
    return Work(
        blocks=blocks,
        convert=ConvertSample(
            spec.image,
            layout,
            class_names,
            settings=_hash_settings(record_settings(spec.to_json(), versions)),
            invalid_boxes=spec.invalid_boxes,
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
            group_rows=spec.source.group_rows,
            last_member_wins=last_member_wins,
        ),
        nothing_reused_because=nothing_reused_because,
    )


def plan_build(
    spec: BuildSpec,
    work: Work,
    *,
    folder: str,
    listing: Listing,
    facts: Mapping[str, Any],
    earlier: Earlier,
    version: str | None,
    fence: Fence,
) -> BuildPlan:
    """Derives the plan of a build from its work.

    Args:
      spec: the request, with its layout.
      work: from `plan_work`.
      folder: the build's folder for temporary files.
      listing: the listed samples.
      facts: what the manifest will say of the request, from `describe_facts`.
      earlier: the datasets that the build looks back to.
      version: name of the version that it writes, or None.
      fence: the right to publish it.
    """
    layout, class_names, reuse = work.convert.layout, work.convert.class_names, work.block_plan.reuse
    before = earlier.version.ref if earlier.version else None
    history = None
    if version is not None:
        history = History(
            root=spec.output,
            version=version,
            earlier=before,
            newest=earlier.newest.ref if earlier.newest else None,
            names=earlier.names,
            compared=reuse is not None and reuse.earlier == before,
            nothing_reused_because=work.nothing_reused_because,
            notes=earlier.notes,
            schedule=spec.schedule,
            settings=fill_spec(earlier.version.manifest["spec"]) if earlier.version else {},
            decisive=tuple(name for name, one in SETTINGS.items() if one.decides_bytes and one.in_spec),
        )
    return BuildPlan(
        spec=spec,
        blocks=work.blocks,
        block_plan=dataclasses.replace(work.block_plan, folder=folder, launch=uuid.uuid4().hex),
        convert=work.convert,
        search=DuplicateSearch(
            folder=folder,
            listed=dict(listing.samples),
            drops=spec.duplicates is Duplicates.DROP,
            near_distance=spec.near_duplicates,
            layout=layout,
            class_names=class_names.names,
            compression=spec.compression,
        ),
        publication=Publication(
            output=storage.join(spec.output, version) if version else spec.output,
            folder=folder,
            name=spec.name,
            layout=layout,
            image=spec.image,
            class_names=class_names.names,
            listed=dict(listing.samples),
            max_failures=spec.max_failures,
            duplicates=spec.duplicates,
            facts=facts,
            count_shards=ShardPolicy(spec.shard_size, spec.num_shards).count,
            fence=fence,
            history=history,
        ),
        earlier=earlier,
    )


def describe_facts(
    spec: BuildSpec,
    *,
    input_fingerprint: str,
    skipped: Skipped,
    notes: Sequence[str] = (),
    read_with: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the manifest will say of the request.

    Args:
      spec: the request, with its layout.
      input_fingerprint: of the listing, or of the containers that are listed.
      skipped: files that are not samples.
      notes: warnings about a valid but unusual request, one line each.
      read_with: as `Listing.read_with`.
    """
    return {
        "skipped": {
            kind: {"files": count, "examples": skipped.examples[kind]} for kind, count in sorted(skipped.counts.items())
        },
        "damaged_containers": len(skipped.damaged),
        "notes": [*notes, *describe_request(spec)],
        "read_with": read_with,
        **identify_request(spec, input_fingerprint),
    }


def identify_request(spec: BuildSpec, input_fingerprint: str) -> dict[str, Any]:
    """What decides the dataset; the manifest says it."""
    return {
        "spec": spec.to_json(),
        "input_fingerprint": input_fingerprint,
        "versions": dict(library_versions()),
    }


def listing_folder(spec: BuildSpec, input_fingerprint: str) -> str:
    """The folder for a listing of containers, named by the request and by all that is known before they are read."""
    return Workspace(spec.output).listing(digest(_decisive_words(spec), input_fingerprint, library_versions())).path


def build_folder(spec: BuildSpec, work: Work, listing_fingerprint: str) -> str:
    """The build's folder for temporary files, named by the listing and the objects that make its blocks of it.

    A build resumes from the blocks it finds there, so no other build may have the same name.
    """
    # The words too: what a later setting does may be in none of the objects yet.
    made_with = work.blocks, work.convert, dataclasses.replace(work.block_plan, folder="", launch="")
    return Workspace(spec.output).build(digest(_decisive_words(spec), listing_fingerprint, *made_with)).path


def _hash_settings(settings: Mapping[str, Any]) -> str:
    # Indices hold it in every `sample_hash`, so it stays as it is.
    return hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=8).hexdigest()


def _decisive_words(spec: BuildSpec) -> dict[str, Any]:
    return {
        name: value
        for name, value in spec.to_json().items()
        if (SETTINGS[name].decides_bytes or name in _OF_LISTING) and name not in _AFTER_BLOCKS
    }


def estimate_output(image: ImageSpec, layout: Layout, *, samples: int, source_bytes: int) -> int:
    """The approximate bytes of the records of some samples."""
    if not layout.needs_image:
        return samples * _ROW_BYTES
    if image.image_size is None:
        return source_bytes or samples * _UNKNOWN_FILE_BYTES
    # A photo's longer side is about 4/3 of its shorter one.
    pixels = image.image_size[0] * image.image_size[1] * 4 / 3
    bytes_per_pixel = _BYTES_PER_PIXEL.get(image.image_encoding, image.channels or 3)
    return int(samples * (pixels * bytes_per_pixel * image.bit_depth / 8 + _ROW_BYTES))
