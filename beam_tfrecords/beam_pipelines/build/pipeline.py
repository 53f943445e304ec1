"""The pipeline of a build: the only module that joins the stages."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.finish import finish_in_pipeline
from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
from beam_tfrecords.dataset.files import ShardNames
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.stage import CollectFiles, ConvertBlocks
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch
from beam_tfrecords.transforms.duplicates.stage import DropDuplicates, FindDuplicates, FindNearDuplicates
from beam_tfrecords.transforms.listing.stage import AssignOrder, ListSource
from beam_tfrecords.transforms.parts import Part, count_bytes, without_hashes
from beam_tfrecords.transforms.publishing.decide import Decision
from beam_tfrecords.transforms.publishing.publication import Publication
from beam_tfrecords.transforms.publishing.stage import FailUnpublished, OpenOutput, PublishDataset
from beam_tfrecords.transforms.request.build_spec import BuildSpec, Duplicates
from beam_tfrecords.transforms.shards.plan import ShardPolicy
from beam_tfrecords.transforms.shards.stage import ComposeShards, PlanShards
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.stage import RemoveTemporary


@dataclasses.dataclass(frozen=True)
class Slices:
    """The slices of a build that its stages need: values, or side inputs of a pipeline that resolves its build itself.

    Attributes:
      folder: the build's folder for temporary files.
      chunks: as in `ResolvedBuild`.
      blocks: split -> number of blocks.
      block_plan: slice of the workers that convert blocks.
      search: slice of the duplicate search.
      publication: slice of the publishing stages.
      names: file names of the shards.
      fence: the right to publish.
      num_blocks: number of all blocks; None if it is unknown.
    """

    folder: str | AsSingleton
    chunks: Sequence[str] | AsSingleton
    blocks: Mapping[str, int] | AsSingleton
    block_plan: BlockPlan | AsSingleton
    search: DuplicateSearch | AsSingleton
    publication: Publication | AsSingleton
    names: ShardNames | AsSingleton
    fence: Fence | AsSingleton
    num_blocks: int | None = None

    @classmethod
    def of(cls, build: ResolvedBuild, publication: Publication) -> Slices:
        """Returns the slices of a resolved build."""
        values = {name: take((build, publication)) for name, take in _TAKE.items()}
        return cls(**values, num_blocks=sum(build.blocks.values()))

    @classmethod
    def later(cls, resolved: beam.PCollection[tuple[ResolvedBuild, Publication]]) -> Slices:
        """Returns side inputs with the slices of the only build of a collection."""
        return cls(**{name: AsSingleton(resolved | f"Take_{name}" >> beam.Map(take)) for name, take in _TAKE.items()})


_TAKE: Mapping[str, Callable[[tuple[ResolvedBuild, Publication]], Any]] = {
    "folder": lambda pair: pair[0].folder,
    "chunks": lambda pair: pair[0].chunks,
    "blocks": lambda pair: dict(pair[0].blocks),
    "block_plan": lambda pair: pair[0].block_plan,
    "search": lambda pair: pair[0].search,
    "publication": lambda pair: pair[1],
    "names": lambda pair: pair[1].shard_names,
    "fence": lambda pair: pair[1].fence,
}


def build_pipeline(
    root: beam.Pipeline,
    spec: BuildSpec,
    slices: Slices,
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
      slices: the slices of the build.
      processes: number of worker processes on this machine; 0 leaves the number to the runner.
      least_memory: memory of a converting worker in bytes, as a resource hint; 0 gives no hint.
      cleans: finishes the dataset and removes temporary files in the pipeline, because no process waits for its end.
      fails_unpublished: fails the pipeline if it publishes nothing.
      report: with `cleans`, writes `report.html`.

    Returns:
      With `cleans`, the folder of the dataset, once it is published.
    """
    convert_blocks = ConvertBlocks(slices.block_plan, processes=processes)
    if least_memory:
        # Beam does not fuse steps with different hints. That costs little here: a shuffle precedes this step, and a few
        # kilobytes per block follow it.
        convert_blocks = convert_blocks.with_resource_hints(min_ram=least_memory)
    results = (
        root
        | "ListSource" >> ListSource(slices.folder, slices.chunks)
        # -> ((split, block), joined references)
        | "AssignOrder" >> AssignOrder(seed=spec.seed, blocks=slices.blocks, processes=processes)
        # -> ((split, block), [joined references])
        | "GroupByKey" >> beam.GroupByKey()
        # -> BlockResult
        | "ConvertBlocks" >> convert_blocks
    )
    # -> Part, DuplicatesFound, Stats
    parts, duplicates, searched = _add_duplicates(results, spec, slices.search, processes=processes)
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
    decision = stats | "OpenOutput" >> OpenOutput(slices.publication)
    shards = (
        parts
        | "IfPublished" >> beam.Filter(_is_published, AsSingleton(decision))
        # -> (group of shards, [(bytes before the part, Part)])
        | "PlanShards" >> PlanShards(ShardPolicy(spec.shard_size, spec.num_shards))
        # -> Shard
        | "ComposeShards" >> ComposeShards(slices.names, fence=slices.fence, processes=processes)
    )
    done = shards | "PublishDataset" >> PublishDataset(
        slices.publication,
        stats=stats,
        decision=decision,
        lists=results | "ListFiles" >> CollectFiles(folder=slices.folder, blocks=slices.num_blocks),
        duplicates=duplicates | "DuplicateFiles" >> beam.FlatMap(operator.attrgetter("files")),
    )
    if fails_unpublished:
        done | "FailUnpublished" >> FailUnpublished(decision, slices.publication)
    if not cleans:
        return None
    finish = storage.with_storage_options(finish_in_pipeline)
    finished = (
        done
        | "AfterPublishing" >> beam.Reshuffle()
        | "FinishDataset"
        >> beam.FlatMap(finish, spec=spec, publication=slices.publication, report=report).with_output_types(str)
    )
    finished | "RemoveTemporary" >> RemoveTemporary(slices.fence)
    return finished


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


def _is_published(_: Part, decision: Decision) -> bool:
    return decision.publishes
