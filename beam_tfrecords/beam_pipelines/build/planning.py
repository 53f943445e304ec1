"""What a build will do, derived from its spec and its listing."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.previous import NOTHING, Previous
from beam_tfrecords.beam_pipelines.build.work import Work
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, fill_spec
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch
from beam_tfrecords.transforms.listing.listing import Listing
from beam_tfrecords.transforms.publishing.changes import History
from beam_tfrecords.transforms.publishing.publication import Publication
from beam_tfrecords.transforms.request.build_spec import BuildSpec, Duplicates
from beam_tfrecords.transforms.shards.plan import ShardPolicy
from beam_tfrecords.transforms.workspace.output_folder import Claim


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
    earlier: Previous = NOTHING


def plan_build(
    spec: BuildSpec,
    work: Work,
    *,
    folder: str,
    listing: Listing,
    facts: Mapping[str, Any],
    earlier: Previous,
    version: str | None,
    fence: Fence,
    claim: Claim,
    is_new: bool = False,
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
      claim: what is known of the output.
      is_new: as in `BlockPlan`.
    """
    publication = Publication(
        output=storage.join(spec.output, version) if version else spec.output,
        folder=folder,
        name=spec.name,
        layout=work.convert.layout,
        image=spec.image,
        class_names=work.convert.class_names.names,
        listed=dict(listing.samples),
        max_failures=spec.max_failures,
        duplicates=spec.duplicates,
        facts=facts,
        count_shards=ShardPolicy(spec.shard_size, spec.num_shards).count,
        fence=fence,
        claimed=claim,
        history=_plan_history(spec, work, earlier, version) if version is not None else None,
    )
    return BuildPlan(
        spec=spec,
        blocks=work.blocks,
        block_plan=dataclasses.replace(work.block_plan, folder=folder, launch=uuid.uuid4().hex, is_new=is_new),
        convert=work.convert,
        search=DuplicateSearch(
            folder=folder,
            listed=publication.listed,
            row_bytes=_estimate_row(listing),
            drops=spec.duplicates is Duplicates.DROP,
            near_distance=spec.near_duplicates,
            layout=publication.layout,
            class_names=publication.class_names,
            compression=spec.compression,
        ),
        publication=publication,
        earlier=earlier,
    )


def _estimate_row(listing: Listing) -> int:
    """Bytes of an index row: the key comes again in the name of the file, and hashes and sizes are beside them."""
    return 200 + 2 * sum(listing.ref_bytes.values()) // max(1, listing.total)


def _plan_history(spec: BuildSpec, work: Work, earlier: Previous, version: str) -> History:
    """What a new version follows."""
    before, reuse = earlier.version, work.block_plan.reuse
    return History(
        root=spec.output,
        version=version,
        earlier=before.ref if before else None,
        newest=earlier.newest.ref if earlier.newest else None,
        names=earlier.names,
        compared=reuse is not None and reuse.earlier == (before.ref if before else None),
        nothing_reused_because=work.nothing_reused_because,
        notes=earlier.notes,
        schedule=spec.schedule,
        settings=fill_spec(before.manifest["spec"]) if before else {},
        decisive=tuple(name for name, one in SETTINGS.items() if one.decides_bytes and one.in_spec),
    )
