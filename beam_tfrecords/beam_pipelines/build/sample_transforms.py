"""ReadSamples and ConvertSamples: the input and the conversion of a build, for use in any Beam pipeline."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.transforms.window import GlobalWindows

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions
from beam_tfrecords.beam_pipelines.build.user_functions import find_functions
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, read_build_spec, read_request
from beam_tfrecords.errors import BuildError, RequestError, SampleError
from beam_tfrecords.features.contents import CLASSES, Content
from beam_tfrecords.features.layouts import Layout, parse_layout
from beam_tfrecords.habits import explain_name
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.blocks.guard import describe_failure, failure_of
from beam_tfrecords.transforms.class_list import ClassList, fit_classes, parse_class_words
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.listing.decisions import Decisions
from beam_tfrecords.transforms.listing.listing import read_chunk, write_chunk_names
from beam_tfrecords.transforms.listing.stage import ListSource
from beam_tfrecords.transforms.mapping.open_sample import OpenSample, files_of, parts_of, values_of
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.sample_objects import to_source
from beam_tfrecords.transforms.refs.overflow_rows import load_oversized
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.settings import settings_of
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

if TYPE_CHECKING:
    from apache_beam.pvalue import PCollection

_IMAGE = frozenset(setting.name for setting in settings_of(ImageSpec))
_CONVERT = _IMAGE | {"layout", "class_names", "invalid_boxes", "max_failures"}
_READ = _IMAGE | {setting.name for setting in settings_of(SourceSpec)} | {"layout", "splits", "seed", "limit"}
_READ |= {"stratify", "max_file_size", "max_failures"}
_METRICS = "beam_tfrecords"
FAILURES = "failures"


class ReadSamples(beam.PTransform):
    """Reads the samples of any input that `build` reads: root -> `Sample`.

        >>> import apache_beam as beam
        >>> with beam.Pipeline() as root:
        ...     keys = root | ReadSamples(input="photos/") | beam.Map(lambda sample: sample.key)
        ...     _ = keys | beam.combiners.Count.Globally() | beam.Map(print)
        12

    The input is listed when the pipeline is constructed; workers read an image on first access. The returned collection
    has an attribute `failures`: the samples that the source rejects, as dictionaries like the lines of
    `failures.jsonl`. A rejected sample stops the pipeline unless the pipeline reads `failures` or `max_failures` allows
    it.

    A label is the name of a class, without its number in the input. `WriteDataset` sorts the names; to keep their order
    and the classes without a sample, give it the names: `class_names=open_dataset("old/").class_names` of a dataset.

    Args:
      temp_folder: folder for the listing and for copies of files that need one; all workers must be able to access it.
        The default is a local folder, which is deleted when this process ends.
      settings: settings of the input and of images, as for `build`; `layout` says whether samples have masks or
        objects. `max_failures` is the share of the samples that may be rejected; the default is 0.

    Raises:
      RequestError: the request is wrong, or has no samples.
      BuildError: a service fault.
    """

    def __init__(self, *, temp_folder: str | None = None, **settings: Any) -> None:
        super().__init__()
        refuse_others("ReadSamples", settings, _READ)
        settings = {"max_failures": 0, **settings}
        self._folder = storage.absolute(temp_folder) if temp_folder else _own_folder()
        self._spec = read_request({**settings, "output": self._folder})
        _refuse_records("ReadSamples", self._spec.layout)

    def expand(self, root: Any) -> PCollection[Sample]:
        spec = self._spec
        rejections = Rejections("ReadSamples", spec.max_failures)
        with storage.using(spec.storage_options()):
            open_sample, decisions = _list(spec, self._folder)
            opened = (
                root
                | "List" >> ListSource(self._folder)
                | "Open"
                >> rejections.bind(_open_samples, opener=open_sample, decisions=decisions).with_outputs(
                    FAILURES, main="samples"
                )
            )
            return rejections.split(opened, "samples", Sample)


class ConvertSamples(beam.PTransform):
    """Converts samples as `build` does: `Sample` -> serialized `tf.train.Example`.

        >>> import apache_beam as beam
        >>> with beam.Pipeline() as root:
        ...     samples = root | ReadSamples(input="photos/")
        ...     examples = samples | ConvertSamples(class_names=["cat", "dog"], image_size=16)
        ...     _ = examples | beam.combiners.Count.Globally() | beam.Map(print)
        12

    The returned collection has an attribute `failures`: the rejected samples, as dictionaries like the lines of
    `failures.jsonl`. A rejected sample stops the pipeline unless the pipeline reads `failures` or `max_failures` allows
    it. The order is the runner's.

    Args:
      settings: settings of images, `layout`, `class_names` and `invalid_boxes`, as for `build`. A layout with class
        indices needs `class_names`. `max_failures` is the share of the samples that may fail; the default is 0.

    Raises:
      RequestError: a setting is wrong, or classes are not named.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        refuse_others("ConvertSamples", settings, _CONVERT)
        spec = read_build_spec({"max_failures": 0, **settings, "input": "samples", "output": "examples"})
        layout = spec.layout or parse_layout("tfds")
        _refuse_records("ConvertSamples", layout)
        if (CLASSES & layout.required) and spec.class_names is None:
            raise RequestError(
                "ConvertSamples: the layout has class indices, and the classes are unknown before the pipeline runs; "
                "name them with `class_names`, or choose another `layout`, such as `layout=image`",
                code="missing_class_names",
            )
        if Content.ARRAY in layout.required and not (spec.array_type and spec.channels):
            raise RequestError(
                "ConvertSamples: the kind of arrays is unknown before the pipeline runs; name it with `array_type` and "
                "`channels`",
                code="needs_setting",
            )
        unnamed = next((head.name for head in layout.heads.values() if not head.class_names), None)
        if unnamed is not None:
            raise RequestError(
                f"ConvertSamples: `layout`: the classes of {unnamed!r} are unknown before the pipeline runs; name "
                "them: {field: …, type: class, class_names: [a, b]}",
                code="missing_class_names",
            )
        heads = {
            name: fit_classes(parse_class_words(head.class_names), (), numbers_are_indices=True)
            for name, head in layout.heads.items()
        }
        classes = fit_classes(spec.class_names or ClassList(()), (), numbers_are_indices=True)
        self._convert = ConvertSample(spec.image, layout, classes, invalid_boxes=spec.invalid_boxes, heads=heads)
        self._max_failures = spec.max_failures

    def expand(self, samples: PCollection[Sample]) -> PCollection[bytes]:
        rejections = Rejections("ConvertSamples", self._max_failures)
        convert = rejections.bind(_convert, convert=self._convert)
        return rejections.split(
            samples | "Convert" >> convert.with_outputs(FAILURES, main="examples"), "examples", bytes
        )


def refuse_others(name: str, settings: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuses settings that a transform does not take.

    Args:
      name: name of the transform, for messages.
      settings: the settings of a request.
      known: names of the settings that the transform takes.

    Raises:
      RequestError: names another setting.
    """
    wrong = next((setting for setting in settings if setting not in known), None)
    if wrong is not None:
        # A setting of builds is meant as it is.
        hint = "" if wrong in SETTINGS else explain_name(wrong, known=known, ask="did you mean `{}`?".format)
        meant = f"; {hint}" if hint else ""
        raise RequestError(
            f"{name}: found `{wrong}`{meant}; expected settings among {', '.join(sorted(known))}",
            code="unknown_setting",
        )


def _refuse_records(name: str, layout: Layout | None) -> None:
    if layout is not None and layout.keeps_records:
        raise RequestError(
            f"{name}: `layout=same` stores whole records, and samples are parts of them; use `layout=columns`",
            code="setting_not_applicable",
        )


def _own_folder() -> str:
    folder = tempfile.mkdtemp(prefix="beam-tfrecords-")
    atexit.register(storage.delete_tree, folder)
    return folder


def _list(spec: BuildSpec, folder: str) -> tuple[OpenSample, Decisions]:
    """Lists the samples of a request in a folder; returns the function that opens them, and the listing's decisions."""
    with storage.expanding_into(storage.join(folder, "expanded")), trying_suggestions(spec):
        # A step of the pipeline receives the failures.
        spec, source = open_spec_source(dataclasses.replace(find_functions(spec), max_failures=1))
        if source.pipeline is not None:
            raise RequestError(
                f"`input={spec.input[0]}`: is a pipeline itself; expected that it is called",
                code="pipeline_input",
            )
        listed = list_input(spec, source, folder, max_file_size=spec.max_file_size)
        if not listed.listing.total:
            raise RequestError(f"`input={', '.join(spec.input)}`: no sample found", code="no_samples")
        write_chunk_names(listed.listing, folder)
    records = source.description.records
    return OpenSample(spec.image, spec.max_file_size, records.layout if records else None), listed.listing.decisions


def _open_samples(chunk: str, *, opener: OpenSample, decisions: Decisions, rejections: Rejections) -> Iterator[Any]:
    """Opens the samples of a chunk file: chunk file -> `Sample`."""
    for refs in load_oversized(read_chunk(chunk, decisions), decide=decisions.apply):
        for ref in refs:
            try:
                yield opener.open(ref)
                Metrics.counter(_METRICS, "samples_read").inc()
            except SampleError as error:
                Metrics.counter(_METRICS, "samples_rejected").inc()
                yield from rejections.divert(describe_failure(ref, error))


def _convert(sample: Sample, *, convert: ConvertSample, rejections: Rejections) -> Iterator[Any]:
    """Converts a sample: `Sample` -> example."""
    if not isinstance(sample, Sample):
        raise TypeError(f"ConvertSamples: found {type(sample).__name__}; expected beam_tfrecords.Sample")
    ref = SampleRef(sample.key, {name: File(sample.key) for name in parts_of(sample)}, split=sample.split)
    try:
        yield _make_example(ref, sample, convert)
        Metrics.counter(_METRICS, "examples").inc()
    except Exception as error:
        failure = failure_of(error, ref, memory=0)
        Metrics.counter(_METRICS, "failures").inc()
        yield from rejections.divert(describe_failure(ref, failure))


def _make_example(ref: SampleRef, sample: Sample, convert: ConvertSample) -> bytes:
    layout: Layout = convert.layout
    label, columns = values_of(sample, layout.columns)
    files = files_of(sample) if Content.IMAGE in layout.required else {}
    objects = to_source(sample.objects) if Content.OBJECTS in layout.required else None
    ref = SampleRef(ref.key, ref.images if files else {}, 0, "", label, ref.split, columns, objects=objects)
    prepared = convert.prepare(ref, files)
    (example,) = convert.finish(RefColumns.of_one(ref), [prepared]).examples
    return example


class Rejections:
    """Decides whether the first rejected sample stops the pipeline.

    Args:
      name: name of the transform, for messages.
      max_failures: share of the samples that may fail. With 0, the first one stops the pipeline unless the pipeline
        reads the failures.
    """

    def __init__(self, name: str, max_failures: float) -> None:
        self.name = name
        self.max_failures = max_failures
        self.failures: PCollection[Any] | None = None
        self._stops = not max_failures

    def __getstate__(self) -> dict[str, Any]:
        stops = self._stops and not (self.failures is not None and _is_read(self.failures))
        return {**vars(self), "failures": None, "_stops": stops}

    def bind(self, function: Callable[..., Iterator[Any]], **named: Any) -> beam.ParDo:
        """Returns the transform of a function that diverts failures; it is pickled when the pipeline runs."""
        bound = functools.partial(function, rejections=self, **named)
        return beam.FlatMap(storage.with_storage_options(bound))

    def divert(self, failure: Mapping[str, Any]) -> Iterator[beam.pvalue.TaggedOutput]:
        """Yields a failure for the second output.

        Raises:
          BuildError: no failure is allowed, and the pipeline does not read them.
        """
        if self._stops:
            detail = f": {failure['detail']}" if failure.get("detail") else ""
            raise BuildError(
                f"{self.name}: {failure['key']} is rejected ({failure['reason']}{detail}), and the pipeline does not "
                "read the attribute `failures`; read it, or allow a share of the samples with `max_failures`, such as "
                "max_failures=0.01"
            )
        yield beam.pvalue.TaggedOutput(FAILURES, dict(failure))

    def split(self, outputs: Any, main: str, kind: type) -> Any:
        """Returns the main output, with the attribute `failures`; adds the check of their share."""
        made, failures = outputs[main], outputs[FAILURES]
        made.element_type, failures.element_type = kind, dict[str, Any]
        made.failures = self.failures = failures
        if self.max_failures:
            if not made.is_bounded:
                raise RequestError(
                    f"{self.name}: `max_failures={self.max_failures:g}` is a share of all samples, and the collection "
                    "is unbounded; expected a pipeline that reads `failures`",
                    code="setting_not_applicable",
                )
            counts = [
                beam.pvalue.AsSingleton(
                    one
                    | f"{label}InOneWindow" >> beam.WindowInto(GlobalWindows())
                    | f"Count{label}" >> beam.combiners.Count.Globally()
                )
                for label, one in (("Made", made), ("Failures", failures))
            ]
            _ = made.pipeline | "Once" >> beam.Impulse() | "CheckFailures" >> beam.Map(_check_share, *counts, self)
        return made


def _check_share(_: bytes, made: int, failed: int, rejections: Rejections) -> None:
    most = rejections.max_failures
    if failed > most * (made + failed):
        raise BuildError(
            f"{rejections.name}: {failed:,} of {made + failed:,} samples are rejected; `max_failures={most:g}` allows "
            f"{int(most * (made + failed)):,}"
        )


def _is_read(collection: PCollection[Any]) -> bool:
    """Whether a transform of the pipeline reads a collection."""
    visitor = _FindReader(collection)
    collection.pipeline.visit(visitor)
    return visitor.is_found


class _FindReader(PipelineVisitor):
    """Finds a transform that reads a collection."""

    def __init__(self, collection: PCollection[Any]) -> None:
        self._collection = collection
        self.is_found = False

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        read = (*transform_node.inputs, *(one.pvalue for one in transform_node.side_inputs))
        self.is_found = self.is_found or any(one is self._collection for one in read)
