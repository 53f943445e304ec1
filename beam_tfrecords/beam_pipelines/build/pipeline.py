"""The pipeline of `convert`: the one place where the stages are joined."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import apache_beam as beam

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.planning import BuildPlan
from beam_tfrecords.output.files import SUCCESS, ShardNames
from beam_tfrecords.transforms.blocks.stage import CollectFiles, ConvertBlocks
from beam_tfrecords.transforms.duplicates.stage import DropDuplicates, FindDuplicates, FindNearDuplicates
from beam_tfrecords.transforms.listing.stage import AssignOrder, ListSource
from beam_tfrecords.transforms.parts import Part, count_bytes, without_hashes
from beam_tfrecords.transforms.publishing.decide import Decision
from beam_tfrecords.transforms.publishing.stage import FailUnpublished, OpenOutput, PublishDataset
from beam_tfrecords.transforms.shards.plan import ShardPolicy
from beam_tfrecords.transforms.shards.stage import ComposeShards, PlanShards
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.stage import RemoveTemporary


def build_pipeline(
    root: beam.Pipeline,
    plan: BuildPlan,
    *,
    processes: int = 0,
    least_memory: int = 0,
    cleans: bool = False,
    fails_unpublished: bool = False,
) -> None:
    """Adds all stages of a build to a pipeline.

    Args:
      processes: number of processes of this machine that do the work; 0 leaves it to the runner.
      least_memory: bytes that the machines which convert are asked to have; 0 leaves it to the runner.
      cleans: whether the pipeline removes its temporary files, because nobody waits for its end.
      fails_unpublished: whether the pipeline fails if it publishes nothing.
    """
    spec = plan.spec
    convert_blocks = ConvertBlocks(plan.block_plan, plan.convert, processes=processes)
    if least_memory:
        # Not fused with steps of other hints: a shuffle comes before, and some kilobytes for each block after.
        convert_blocks = convert_blocks.with_resource_hints(min_ram=least_memory)
    results = (
        root
        | "ListSource" >> ListSource(plan.block_plan.folder)
        # -> ((split, block), joined references)
        | "AssignOrder" >> AssignOrder(seed=spec.seed, blocks=plan.blocks, processes=processes)
        # -> ((split, block), [joined references])
        | "GroupByKey" >> beam.GroupByKey()
        # -> BlockResult
        | "ConvertBlocks" >> convert_blocks
    )
    # -> Part, DuplicatesFound, Stats
    parts, duplicates, searched = _add_duplicates(results, plan, processes=processes)
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
    # Before anything is written to the output: the parts know all that limits and guards ask for.
    decision = stats | "OpenOutput" >> OpenOutput(plan.publication)
    names = ShardNames(plan.publication.output, spec.name, staging=plan.publication.folder)
    shards = (
        parts
        | "IfPublished" >> beam.Filter(_is_published, beam.pvalue.AsSingleton(decision))
        # -> (group of shards, [(bytes before the part, Part)])
        | "PlanShards" >> PlanShards(ShardPolicy(spec.shard_size, spec.num_shards))
        # -> Shard
        | "ComposeShards" >> ComposeShards(names, fence=plan.publication.fence, processes=processes)
    )
    blocks = sum(plan.blocks.values())
    done = shards | "PublishDataset" >> PublishDataset(
        plan.publication,
        stats=stats,
        decision=decision,
        lists=results | "ListFiles" >> CollectFiles(folder=plan.publication.folder, blocks=blocks),
        duplicates=duplicates | "DuplicateFiles" >> beam.FlatMap(operator.attrgetter("files")),
    )
    if cleans:
        output, folder = plan.publication.output, plan.publication.folder
        done | "RemoveTemporary" >> RemoveTemporary(
            BuildFolder(folder).workspace, success=storage.join(output, SUCCESS), outcome=BuildFolder(folder).outcome
        )
    if fails_unpublished:
        done | "FailUnpublished" >> FailUnpublished(decision)


def _add_duplicates(
    results: beam.PCollection, plan: BuildPlan, *, processes: int
) -> tuple[beam.PCollection, beam.PCollection, Sequence[beam.PCollection]]:
    """Adds the search for duplicates.

    Returns:
      The Part of every record that stays, DuplicatesFound, and Stats of what was searched.
    """
    hashed_parts = results | "TakeParts" >> beam.FlatMap(operator.attrgetter("parts"))
    parts = hashed_parts | "WithoutHashes" >> beam.Map(without_hashes)
    duplicates = hashed_parts | "FindDuplicates" >> FindDuplicates(plan.search)
    searched: Sequence[beam.PCollection] = ()
    if plan.search.drops:
        parts |= "DropDuplicates" >> DropDuplicates(
            duplicates,
            folder=plan.search.folder,
            policies=plan.block_plan.policies,
            compression=plan.search.compression,
            processes=processes,
        )
    if plan.search.near_distance:
        # Copies that are dropped have no near-duplicates.
        near, *searched = parts | "FindNearDuplicates" >> FindNearDuplicates(plan.search)
        duplicates = (duplicates, near) | "AllDuplicates" >> beam.Flatten()
    return parts, duplicates, searched


def _is_published(_: Part, decision: Decision) -> bool:
    return decision.publishes
