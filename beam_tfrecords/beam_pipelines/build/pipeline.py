"""The pipeline of a build: the only module that joins the stages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.finish import finish_in_pipeline
from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
from beam_tfrecords.transforms.blocks.stage import CollectFiles, ConvertBlocks
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch
from beam_tfrecords.transforms.duplicates.stage import DropDuplicates, FindDuplicates, FindNearDuplicates
from beam_tfrecords.transforms.listing.stage import AssignOrder, ListSource
from beam_tfrecords.transforms.parts import count_bytes, without_hashes
from beam_tfrecords.transforms.publishing.stage import FailUnpublished, OpenOutput, PublishDataset
from beam_tfrecords.transforms.request.build_spec import BuildSpec, Duplicates
from beam_tfrecords.transforms.shards.plan import ShardPolicy
from beam_tfrecords.transforms.shards.stage import ComposeShards, PlanShards
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.stage import RemoveTemporary


def build_pipeline(
    root: beam.Pipeline,
    spec: BuildSpec,
    build: ResolvedBuild | beam.PCollection[ResolvedBuild],
    *,
    processes: int = 0,
    least_memory: int = 0,
    cleans: bool = False,
    fails_unpublished: bool = False,
    report: bool = True,
) -> beam.PCollection[str] | None:
    """Adds all stages of a build to a pipeline.

    Args:
      spec: the request.
      build: the build, or the only element of a collection, in a pipeline that resolves its build itself.
      processes: number of worker processes on this machine; 0 leaves the number to the runner.
      least_memory: memory of a converting worker in bytes, as a resource hint; 0 gives no hint.
      cleans: finishes the dataset and removes temporary files in the pipeline, because no process waits for its end.
      fails_unpublished: fails the pipeline if it publishes nothing.
      report: with `cleans`, writes `report.html`.

    Returns:
      With `cleans`, the folder of the dataset, once it is published.
    """
    take = _takes_from(build)
    num_blocks = sum(build.block_plan.blocks.values()) if isinstance(build, ResolvedBuild) else None
    folder, publication, search = take("folder"), take("publication"), take("search")
    fence = take("publication.fence")
    convert_blocks = ConvertBlocks(take("block_plan"), processes=processes)
    if least_memory:
        # Beam does not fuse steps with different hints. That costs little here: a shuffle precedes this step, and a few
        # kilobytes per block follow it.
        convert_blocks = convert_blocks.with_resource_hints(min_ram=least_memory)
    results = (
        root
        | "ListSource" >> ListSource(folder, take("chunks"))
        # -> ((split, block), joined references)
        | "AssignOrder"
        >> AssignOrder(
            seed=spec.seed, blocks=take("block_plan.blocks"), decisions=take("decisions"), processes=processes
        )
        # -> ((split, block), [joined references])
        | "GroupByKey" >> beam.GroupByKey()
        # -> BlockResult
        | "ConvertBlocks" >> convert_blocks
    )
    # -> Part, DuplicatesFound, Stats
    parts, duplicates, searched = _add_duplicates(results, spec, search, processes=processes)
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
    shards = (
        parts
        | "IfPublished" >> beam.Filter(lambda _, decided: decided.publishes, AsSingleton(decision))
        # -> (group of shards, [(bytes before the part, Part)])
        | "PlanShards" >> PlanShards(ShardPolicy(spec.shard_size, spec.num_shards))
        # -> Shard
        | "ComposeShards" >> ComposeShards(take("publication.shard_names"), fence=fence, processes=processes)
    )
    done = shards | "PublishDataset" >> PublishDataset(
        publication,
        stats=stats,
        decision=decision,
        lists=results | "ListFiles" >> CollectFiles(folder=folder, blocks=num_blocks),
        duplicates=duplicates | "DuplicateFiles" >> beam.FlatMap(operator.attrgetter("files")),
    )
    if fails_unpublished:
        done | "FailUnpublished" >> FailUnpublished(decision, publication)
    if not cleans:
        return None
    finish = storage.with_storage_options(finish_in_pipeline)
    finished = (
        done
        | "AfterPublishing" >> beam.Reshuffle()
        | "FinishDataset"
        >> beam.FlatMap(finish, spec=spec, publication=publication, report=report).with_output_types(str)
    )
    finished | "RemoveTemporary" >> RemoveTemporary(fence)
    return finished


def _takes_from(build: ResolvedBuild | beam.PCollection[ResolvedBuild]) -> Callable[[str], Any]:
    """Returns a function that takes a slice of a build by the path of its attribute, as a value or as a side input."""

    def take(path: str) -> Any:
        get = operator.attrgetter(path)
        if isinstance(build, ResolvedBuild):
            return get(build)
        return AsSingleton(build | f"Take_{path}" >> beam.Map(get))

    return take


def _add_duplicates(
    results: beam.PCollection, spec: BuildSpec, search: DuplicateSearch | AsSingleton, *, processes: int
) -> tuple[beam.PCollection, beam.PCollection, Sequence[beam.PCollection]]:
    """Adds the search for duplicates.

    Returns:
      Three collections: `Part`s of the records that stay, `DuplicatesFound`, and `Stats` of the search.
    """
    hashed_parts = results | "TakeParts" >> beam.FlatMap(operator.attrgetter("parts"))
    parts = hashed_parts | "WithoutHashes" >> beam.Map(without_hashes)
    duplicates = hashed_parts | "FindDuplicates" >> FindDuplicates(search)
    searched: Sequence[beam.PCollection] = ()
    if spec.duplicates is Duplicates.DROP:
        parts |= "DropDuplicates" >> DropDuplicates(duplicates, search=search, processes=processes)
    if spec.near_duplicates:
        # Near-duplicates are searched among the images that are left.
        near, *searched = parts | "FindNearDuplicates" >> FindNearDuplicates(search)
        duplicates = (duplicates, near) | "AllDuplicates" >> beam.Flatten()
    return parts, duplicates, searched
