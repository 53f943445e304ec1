"""The pipeline of `convert`: the one place where the stages are joined."""

from __future__ import annotations

import apache_beam as beam

from beam_pipelines.planning import BuildPlan
from transforms.blocks import BlockResult, ConvertBlocks
from transforms.list_source import ListSource
from transforms.ordering import AssignOrder
from transforms.publish import OpenOutput, PublishDataset
from transforms.shards import ComposeShards, PlanShards, ShardNames
from transforms.stats import Stats


def build_pipeline(root: beam.Pipeline, plan: BuildPlan) -> None:
    """Adds all stages of a build to a pipeline."""
    spec = plan.spec
    results = (
        root
        | "ListSource" >> ListSource(plan.chunks)
        # -> ((split, block), packed ref)
        | "AssignOrder" >> AssignOrder(seed=spec.seed, blocks=plan.blocks)
        # -> ((split, block), [packed ref])
        | "GroupByKey" >> beam.GroupByKey()
        # -> BlockResult
        | "ConvertBlocks" >> ConvertBlocks(plan.block_plan, plan.convert)
    )
    stats = results | "MergeStats" >> beam.Map(_stats) | beam.CombineGlobally(Stats.merge)
    may_publish = stats | "OpenOutput" >> OpenOutput(plan.publication)
    shards = (
        results
        | "TakeParts" >> beam.FlatMap(_parts_if, beam.pvalue.AsSingleton(may_publish))
        # -> ((split, shard, of), [Part])
        | "PlanShards" >> PlanShards(shard_size=spec.shard_size, num_shards=spec.num_shards)
        # -> Shard
        | "ComposeShards" >> ComposeShards(ShardNames(spec.output, spec.name))
    )
    failures = results | "FailureFiles" >> beam.FlatMap(_failure_files)
    shards | "PublishDataset" >> PublishDataset(plan.publication, stats=stats, failures=failures)


def _stats(result: BlockResult) -> Stats:
    return result.stats


def _parts_if(result: BlockResult, may_publish: bool) -> list:
    return list(result.parts) if may_publish else []


def _failure_files(result: BlockResult) -> list[str]:
    return [result.failures] if result.failures else []
