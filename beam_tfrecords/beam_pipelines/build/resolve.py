"""Fills in everything that a request leaves open: the slices of the stages of a build."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import socket
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.identity import build_folder
from beam_tfrecords.beam_pipelines.build.output.previous import NOTHING, Previous, plan_reuse, record_settings
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, fill_spec
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout, with_class_names
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.libraries import library_versions
from beam_tfrecords.transforms.listing.decisions import Decisions
from beam_tfrecords.transforms.listing.listing import Listing
from beam_tfrecords.transforms.listing.ordering import count_blocks
from beam_tfrecords.transforms.parts import GROUP_BYTES, PartPolicy
from beam_tfrecords.transforms.publishing.publication import Publication
from beam_tfrecords.transforms.request.build_spec import BuildSpec, Duplicates
from beam_tfrecords.transforms.request.schedule_spec import ScheduleSpec
from beam_tfrecords.transforms.settings import slice_of
from beam_tfrecords.transforms.shards.plan import ShardPolicy, estimate_output
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import Fingerprint

if TYPE_CHECKING:
    from beam_tfrecords.transforms.blocks.filtering import Condition
    from beam_tfrecords.transforms.mapping.open_sample import MapSample
    from beam_tfrecords.transforms.publishing.changes import History

# Bytes of an index row beside its key.
_ROW_BYTES = 200


@dataclasses.dataclass(frozen=True)
class ResolvedBuild:
    """A build with everything that its request leaves open. It is made once; each stage gets its slice.

    Attributes:
      spec: the request, with its layout.
      chunks: the chunk files of the listing, if they are few; otherwise a file in the folder names them.
      decisions: what the listing decides about the references in these files.
      block_plan: slice of the workers that convert blocks. The name of its folder depends on everything that determines
        the blocks.
      search: slice of the duplicate search.
      publication: slice of the publishing stages, with the right to publish.
    """

    spec: BuildSpec
    chunks: Sequence[str]
    decisions: Decisions
    block_plan: BlockPlan
    search: DuplicateSearch
    publication: Publication

    @property
    def folder(self) -> str:
        """The build's folder for temporary files."""
        return self.block_plan.folder

    @property
    def listed(self) -> Mapping[str, int]:
        """Split -> number of listed samples; "" contains those without a valid split."""
        return self.search.listed


def plan_blocks(
    spec: BuildSpec,
    source: Source,
    listing: Listing,
    class_names: ClassNames,
    *,
    heads: Mapping[str, ClassNames] = MappingProxyType({}),
    previous: Previous = NOTHING,
    is_new: bool = False,
) -> BlockPlan:
    """Plans the conversion of the blocks, and names the folder of the build.

    Args:
      spec: the request, with its layout.
      source: the opened source, listed.
      listing: its samples.
      class_names: the classes.
      heads: feature -> its classes, as in `ConvertSample`.
      previous: the previous datasets.
      is_new: whether the output contains nothing of earlier attempts at a build.
    """
    layout = with_class_names(spec.stored, {name: head.names for name, head in heads.items()})
    records, versions = source.description.records, dict(library_versions())
    blocks, policies = _count_blocks(spec, layout, listing)
    reuse, nothing_reused_because = plan_reuse(spec, previous.reused, versions=versions, blocks=blocks)
    plan = BlockPlan(
        convert=ConvertSample(
            spec.image,
            layout,
            class_names,
            settings=_hash_settings(record_settings(spec.to_json(), versions)),
            invalid_boxes=spec.invalid_boxes,
            records=records.layout if records else None,
            keeps_stored=records is not None and records.fits(spec.image),
            heads=dict(heads),
            paths=spec.published_paths,
        ),
        seed=spec.seed,
        blocks=blocks,
        policies=policies,
        compression=spec.compression,
        max_file_size=spec.max_file_size,
        image_timeout=spec.image_timeout,
        max_image_memory=spec.max_image_memory if Content.IMAGE in layout.required else 0,
        hashes_files=spec.fingerprint is Fingerprint.CONTENT,
        reuse=reuse,
        libraries=versions,
        group_rows=spec.group_rows,
        last_member_wins=source.description.last_member_wins,
        map=_find_map(spec, layout, records.layout if records else None),
        where=_find_condition(spec.where, layout, dict(heads)),
        # All parts of a small build form one group.
        most_index_bytes=GROUP_BYTES // max(1, sum(blocks.values())),
        decide=listing.decisions.apply,
        nothing_reused_because=nothing_reused_because,
        launcher=socket.gethostname(),
        run_id=uuid.uuid4().hex,
        is_new=is_new,
    )
    return dataclasses.replace(plan, folder=build_folder(spec, listing.fingerprint, plan))


def resolve_build(
    spec: BuildSpec,
    plan: BlockPlan,
    listing: Listing,
    metadata: Mapping[str, Any],
    *,
    chunks: Sequence[str],
    previous: Previous,
    version: str | None,
    fence: Fence,
) -> ResolvedBuild:
    """Returns one attempt at a build.

    Args:
      spec: the request.
      plan: the plan of the blocks.
      listing: the samples.
      metadata: description of the request for the manifest.
      chunks: as in `ResolvedBuild`.
      previous: the previous datasets.
      version: name of the version that it writes, or None.
      fence: the right to publish it.
    """
    layout, class_names = plan.convert.layout, plan.convert.class_names
    search = DuplicateSearch(
        folder=plan.folder,
        listed=dict(listing.samples),
        # A row contains its key twice, also in its file name.
        row_bytes=_ROW_BYTES + 2 * sum(listing.ref_bytes.values()) // max(1, listing.total),
        drops=spec.duplicates is Duplicates.DROP,
        near_distance=spec.near_duplicates,
        layout=layout,
        class_names=class_names.names,
        compression=spec.compression,
        policies=plan.policies,
    )
    publication = Publication(
        output=storage.join(spec.output, version) if version else spec.output,
        folder=plan.folder,
        name=spec.name,
        layout=layout,
        class_names=class_names.names,
        listed_classes=frozenset(name for name, count in class_names.count(listing.labels).items() if count),
        listed=dict(listing.samples),
        max_failures=spec.max_failures,
        duplicates=spec.duplicates,
        metadata=metadata,
        count_shards=ShardPolicy(spec.shard_size, spec.num_shards).count,
        fence=fence,
        is_new=plan.is_new,
        paths=spec.published_paths,
        history=_plan_history(spec, plan, previous, version) if version is not None else None,
    )
    return ResolvedBuild(spec, chunks, listing.decisions, plan, search, publication)


def _plan_history(spec: BuildSpec, plan: BlockPlan, previous: Previous, version: str) -> History:
    """Returns the history of a new version."""
    # Only versions need these modules.
    from beam_tfrecords.transforms.publishing.changes import History

    before = previous.version.ref if previous.version else None
    return History(
        root=spec.output,
        version=version,
        previous=before,
        newest=previous.newest.ref if previous.newest else None,
        names=previous.names,
        compared=plan.reuse is not None and plan.reuse.previous == before,
        nothing_reused_because=plan.nothing_reused_because,
        notes=tuple(map(spec.published_paths.publish_text, previous.notes)),
        schedule=slice_of(ScheduleSpec, spec),
        settings=fill_spec(previous.version.manifest["spec"]) if previous.version else {},
        decisive=tuple(name for name, one in SETTINGS.items() if one.decides_bytes and one.in_spec),
    )


def _find_map(spec: BuildSpec, layout: Layout, records: Layout | None) -> MapSample | None:
    if spec.map is None:
        return None
    # Only builds with a function need these modules.
    from beam_tfrecords.transforms.mapping.open_sample import MapSample

    return MapSample(spec.map, spec.image, layout, records)


def _find_condition(where: str | None, layout: Layout, heads: Mapping[str, ClassNames]) -> Condition | None:
    if not where:
        return None
    # Only conditions need these parts of pyarrow, which take 0.05 s to import.
    from beam_tfrecords.transforms.blocks.filtering import Condition

    return Condition(where, layout, heads)


def _count_blocks(spec: BuildSpec, layout: Layout, listing: Listing) -> tuple[dict[str, int], dict[str, PartPolicy]]:
    """Returns the number of blocks of each split, and the policy that ends their parts."""
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
    # Every `sample_hash` in indices contains this hash, so it must not change.
    return hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=8).hexdigest()
