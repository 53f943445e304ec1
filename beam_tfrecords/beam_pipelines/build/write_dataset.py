"""WriteDataset: a build whose samples are a collection of any Beam pipeline."""

from __future__ import annotations

import dataclasses
import os
import uuid
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.output import check_location, check_output
from beam_tfrecords.beam_pipelines.build.listing.finish_listing import plan_listing
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.output.lock import lock_output
from beam_tfrecords.beam_pipelines.build.pipeline import build_pipeline
from beam_tfrecords.beam_pipelines.build.prepare import resolve_listed
from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
from beam_tfrecords.beam_pipelines.build.sample_transforms import refuse_others
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, read_request
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.listing.indexing import IndexPlan
from beam_tfrecords.transforms.listing.stage import ListSamples
from beam_tfrecords.transforms.request.build_spec import BuildSpec, name_from_input
from beam_tfrecords.transforms.sink import count_transforms
from beam_tfrecords.transforms.sources.functions.elements import ElementReader
from beam_tfrecords.transforms.sources.functions.python import CollectionSource
from beam_tfrecords.transforms.sources.opening import SOME_TAKE
from beam_tfrecords.transforms.sources.registry import FUNCTIONS, find_source
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.workspace.build_folder import Workspace

if TYPE_CHECKING:
    from apache_beam.pvalue import PCollection

# What the manifest records as the input.
_INPUT = "beam:collection"
_FIELDS = ("key_column", "image_column", "label_column")
_OF_FUNCTIONS = {"input", "source", "output", "parts", "fingerprint", "map", "map_revision", "check_map"}
_KNOWN = ({*SETTINGS} - {*SOME_TAKE} | {*find_source(FUNCTIONS, "").takes, *_FIELDS}) - _OF_FUNCTIONS


class WriteDataset(beam.PTransform):
    """Writes a dataset, as `build` does: `Sample`, dictionary, row or `tf.train.Example` -> folder of the dataset.

        >>> import apache_beam as beam
        >>> rows = [{"key": name, "image": f"photos/{name}/1.png", "label": name} for name in ("cat", "dog")]
        >>> with beam.Pipeline() as root:
        ...     _ = root | beam.Create(rows) | WriteDataset("pets", image_size=16)
        >>> from beam_tfrecords import open_dataset
        >>> open_dataset("pets").num_records
        2

    The dataset has the order, shards, index, manifest and report of a build of the same samples. A sample that cannot
    be stored is a failure in `failures.jsonl`; with more failures than `max_failures` allows, the pipeline fails and
    publishes nothing. The same pipeline resumes from the blocks that an earlier run finished. Bytes of images are
    written to temporary files in `output` and never shuffled, so all workers need access to `output`.

    Args:
      output: folder of the dataset.
      key_column, image_column, label_column: field of dictionaries, rows and examples with the key, the image and the
        label; the defaults are `key`, `image` and `label`, or TensorFlow's names in examples. The key of an example
        without one is the hash of its bytes. Other fields are columns, except `images`, `mask`, `split` and `objects`.
      settings: settings of `build`, except for its input and `map`. The default of `name` is the name of the
        folder. For other contents than an image with one label, `layout` is needed.

    Raises:
      RequestError: a setting is wrong, or the output has other content.
      ValueError: the collection is unbounded, or the pipeline writes to the output already.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        *,
        key_column: str | None = None,
        image_column: str | None = None,
        label_column: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        refuse_others("WriteDataset", settings, _KNOWN)
        named = {"key": key_column, "image": image_column, "label": label_column}
        self._fields = {what: name for what, name in named.items() if name is not None}
        folder = os.fspath(output)
        given = {"name": name_from_input(folder), **settings, "input": _INPUT, "source": FUNCTIONS, "output": folder}
        spec = read_request(given)
        with storage.using(spec.storage_options()):
            self._spec, self._source = open_spec_source(spec)
            check_location(self._spec)
            check_output(self._spec)

    def expand(self, samples: PCollection[Any]) -> PCollection[str]:
        self._check_collection(samples)
        spec, source = self._spec, self._source
        assert isinstance(source, CollectionSource)
        (partition,) = source.partitions
        reader = ElementReader(source.reader, self._fields, Content.OBJECTS in spec.needs.contents)
        plan = IndexPlan("", source.for_workers(), plan_listing(spec, source), spec.max_file_size)
        with storage.using(spec.storage_options()):
            # Chosen at run time, because a template runs many times. The reshuffle keeps the plan for retries.
            planned = AsSingleton(
                samples.pipeline
                | "Once" >> beam.Impulse()
                | "PlanListing" >> beam.Map(_plan_listing, plan=plan, output=spec.output)
                | "KeepPlan" >> beam.Reshuffle()
            )
            resolved = (
                samples
                | "OneWindow" >> beam.WindowInto(GlobalWindows())
                | "ListSamples" >> ListSamples(planned, partition, reader.read)
                | "ResolveBuild"
                >> beam.Map(storage.with_storage_options(_resolve_build), planned, spec=spec, source=source)
                | "KeepBuild" >> beam.Reshuffle()
            )
            return build_pipeline(samples.pipeline, spec, resolved, cleans=True, fails_unpublished=True)

    def _check_collection(self, samples: PCollection[Any]) -> None:
        if not samples.is_bounded:
            raise ValueError(
                "WriteDataset: the collection is unbounded, and the order of a dataset is known only at its end; "
                "expected a bounded collection"
            )
        if count_transforms(samples.pipeline, self._writes_the_same) > 1:
            raise ValueError(
                f"WriteDataset: the pipeline writes to {self._spec.output} twice; expected another folder, or one "
                "collection (beam.Flatten)"
            )

    def _writes_the_same(self, other: beam.PTransform) -> bool:
        return isinstance(other, WriteDataset) and other._spec.output == self._spec.output


def _plan_listing(_: bytes, *, plan: IndexPlan, output: str) -> IndexPlan:
    folder = Workspace(output).listing(uuid.uuid4().hex[:16]).path
    return dataclasses.replace(plan, folder=folder, run_id=uuid.uuid4().hex)


def _resolve_build(_: str, listed: IndexPlan, *, spec: BuildSpec, source: Source) -> ResolvedBuild:
    """Resolves the build of the listed samples, and takes the right to publish it over from earlier runs.

    Raises:
      RequestError: the samples do not fit the request.
      OutputLockedError: another build is writing to the output.
    """
    with lock_output(spec) as output:
        return resolve_listed(spec, source, listed.folder, output)
