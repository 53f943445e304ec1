"""The pipeline of `convert`: the one place where the stages are joined."""

from __future__ import annotations

import apache_beam as beam

from beam_pipelines.planning import BuildPlan
from transforms import storage
from transforms.assign_order import AssignOrder
from transforms.blocks import BlockResult
from transforms.compose import ShardNames
from transforms.convert_blocks import ConvertBlocks
from transforms.duplicates.drop import DropDuplicates
from transforms.duplicates.find import FindDuplicates
from transforms.duplicates.groups import DuplicatesFound
from transforms.list_source import ListSource
from transforms.publish import OpenOutput, PublishDataset
from transforms.shards import ComposeShards, PlanShards
from transforms.stats import Stats
from transforms.values import Part


def build_pipeline(root: beam.Pipeline, plan: BuildPlan, *, processes: int = 0) -> None:
    """Adds all stages of a build to a pipeline.

    Args:
      root: the pipeline.
      plan: the build.
      processes: in how many processes of this machine the work is done; 0 leaves that to the runner.
    """
    spec = plan.spec
    results = (
        root
        | "ListSource" >> ListSource(plan.chunks)
        # -> ((split, block), packed refs)
        | "AssignOrder" >> AssignOrder(seed=spec.seed, blocks=plan.blocks)
        # -> ((split, block), [packed refs])
        | "GroupByKey" >> beam.GroupByKey()
        # -> BlockResult
        | "ConvertBlocks" >> ConvertBlocks(plan.block_plan, plan.convert, processes=processes)
    )
    parts = results | "TakeParts" >> beam.FlatMap(_parts)
    # -> DuplicatesFound
    duplicates = parts | "FindDuplicates" >> FindDuplicates(plan.search)
    stats = (
        (results | "CountBlocks" >> beam.Map(_stats), duplicates | "CountDuplicates" >> beam.Map(_stats))
        | "AllStats" >> beam.Flatten()
        | "MergeStats" >> beam.CombineGlobally(Stats.merge).without_defaults()
    )
    may_publish = stats | "OpenOutput" >> OpenOutput(plan.publication)
    published = parts | "IfPublishable" >> beam.Filter(_is_true, beam.pvalue.AsSingleton(may_publish))
    if plan.search.drops:
        folder = storage.join(plan.search.folder, "distinct")
        published |= "DropDuplicates" >> DropDuplicates(
            duplicates, folder=folder, compression=spec.compression, processes=processes
        )
    shards = (
        published
        # -> ((split, shard, of), [Part])
        | "PlanShards" >> PlanShards(shard_size=spec.shard_size, num_shards=spec.num_shards)
        # -> Shard
        | "ComposeShards"
        >> ComposeShards(
            ShardNames(spec.output, spec.name), processes=processes, merging=plan.merging_folder(processes)
        )
    )
    shards | "PublishDataset" >> PublishDataset(
        plan.publication,
        stats=stats,
        failures=results | "FailureFiles" >> beam.FlatMap(_failure_files),
        duplicates=duplicates | "DuplicateFiles" >> beam.FlatMap(_duplicate_files),
    )


def _stats(result: BlockResult | DuplicatesFound) -> Stats:
    return result.stats


def _parts(result: BlockResult) -> tuple[Part, ...]:
    return result.parts


def _is_true(_: Part, may_publish: bool) -> bool:
    return may_publish


def _duplicate_files(found: DuplicatesFound) -> tuple[str, ...]:
    return found.files


def _failure_files(result: BlockResult) -> list[str]:
    return [result.failures] if result.failures else []
