"""The pipeline of a build: the only module that joins the stages."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import apache_beam as beam

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
from beam_tfrecords.output.files import SUCCESS, ShardNames
from beam_tfrecords.transforms.blocks.stage import CollectFiles, ConvertBlocks
from beam_tfrecords.transforms.duplicates.stage import DropDuplicates, FindDuplicates, FindNearDuplicates
from beam_tfrecords.transforms.listing.stage import AssignOrder, ListSource
from beam_tfrecords.transforms.parts import Part, count_bytes, without_hashes
from beam_tfrecords.transforms.publishing.decide import Decision
from beam_tfrecords.transforms.publishing.publication import Publication
from beam_tfrecords.transforms.publishing.stage import FailUnpublished, OpenOutput, PublishDataset
from beam_tfrecords.transforms.shards.plan import ShardPolicy
from beam_tfrecords.transforms.shards.stage import ComposeShards, PlanShards
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.stage import RemoveTemporary


def build_pipeline(
    root: beam.Pipeline,
    build: ResolvedBuild,
    publication: Publication,
    *,
    processes: int = 0,
    least_memory: int = 0,
    cleans: bool = False,
    fails_unpublished: bool = False,
) -> None:
    """Adds all stages of a build to a pipeline.

    Args:
      build: the build.
      publication: the right to publish it.
      processes: number of worker processes on this machine; 0 leaves the number to the runner.
      least_memory: memory of a converting worker in bytes, as a resource hint; 0 gives no hint.
      cleans: removes temporary files in the pipeline, because no process waits for its end.
      fails_unpublished: fails the pipeline if it publishes nothing.
    """
    spec = build.spec
    convert_blocks = ConvertBlocks(build.block_plan, processes=processes)
    if least_memory:
        # Beam does not fuse steps with different hints. That costs little here: a shuffle precedes this step, and a few
        # kilobytes per block follow it.
        convert_blocks = convert_blocks.with_resource_hints(min_ram=least_memory)
    results = (
        root
        | "ListSource" >> ListSource(build.folder)
        # -> ((split, block), joined references)
        | "AssignOrder" >> AssignOrder(seed=spec.seed, blocks=build.blocks, processes=processes)
        # -> ((split, block), [joined references])
        | "GroupByKey" >> beam.GroupByKey()
        # -> BlockResult
        | "ConvertBlocks" >> convert_blocks
    )
    # -> Part, DuplicatesFound, Stats
    parts, duplicates, searched = _add_duplicates(results, build, processes=processes)
    stats = (
        (
            results | "CountBlocks" >> beam.Map(operator.attrgetter("stats")),
            duplicates | "CountDuplicates" >> beam.Map(operator.attrgetter("stats")),
            *searched,
            parts | "CountBytes" >> beam.Map(count_bytes),
        )
        | "AllStats" >> beam.Flatten()
        | "MergeStats" >> beam.CombineGlobally(Stats.merge).without_defaults()
    )
    # Decided before anything is written to the output: the parts hold everything that limits and guards check.
    decision = stats | "OpenOutput" >> OpenOutput(publication)
    names = ShardNames(publication.output, spec.name, staging=build.folder)
    shards = (
        parts
        | "IfPublished" >> beam.Filter(_is_published, beam.pvalue.AsSingleton(decision))
        # -> (group of shards, [(bytes before the part, Part)])
        | "PlanShards" >> PlanShards(ShardPolicy(spec.shard_size, spec.num_shards))
        # -> Shard
        | "ComposeShards" >> ComposeShards(names, fence=publication.fence, processes=processes)
    )
    blocks = sum(build.blocks.values())
    done = shards | "PublishDataset" >> PublishDataset(
        publication,
        stats=stats,
        decision=decision,
        lists=results | "ListFiles" >> CollectFiles(folder=build.folder, blocks=blocks),
        duplicates=duplicates | "DuplicateFiles" >> beam.FlatMap(operator.attrgetter("files")),
    )
    if cleans:
        output, folder = publication.output, build.folder
        done | "RemoveTemporary" >> RemoveTemporary(
            BuildFolder(folder).workspace, success=storage.join(output, SUCCESS), outcome=BuildFolder(folder).outcome
        )
    if fails_unpublished:
        done | "FailUnpublished" >> FailUnpublished(decision)


def _add_duplicates(
    results: beam.PCollection, build: ResolvedBuild, *, processes: int
) -> tuple[beam.PCollection, beam.PCollection, Sequence[beam.PCollection]]:
    """Adds the search for duplicates.

    Returns:
      Three collections: `Part`s of the records that stay, `DuplicatesFound`, and `Stats` of the search.
    """
    hashed_parts = results | "TakeParts" >> beam.FlatMap(operator.attrgetter("parts"))
    parts = hashed_parts | "WithoutHashes" >> beam.Map(without_hashes)
    duplicates = hashed_parts | "FindDuplicates" >> FindDuplicates(build.search)
    searched: Sequence[beam.PCollection] = ()
    if build.search.drops:
        parts |= "DropDuplicates" >> DropDuplicates(
            duplicates,
            folder=build.search.folder,
            policies=build.block_plan.policies,
            compression=build.search.compression,
            processes=processes,
        )
    if build.search.near_distance:
        # Near-duplicates are searched among the images that are left.
        near, *searched = parts | "FindNearDuplicates" >> FindNearDuplicates(build.search)
        duplicates = (duplicates, near) | "AllDuplicates" >> beam.Flatten()
    return parts, duplicates, searched


def _is_published(_: Part, decision: Decision) -> bool:
    return decision.publishes
