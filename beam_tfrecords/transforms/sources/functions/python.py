"""The source for samples that users make: plain Python, a Beam pipeline, or a collection of one."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.features.contents import OUTLINES, Content, contents_in
from beam_tfrecords.features.fields import CAPTIONS
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.description import Description, Labels
from beam_tfrecords.transforms.sources.detect.roles import are_vectors
from beam_tfrecords.transforms.sources.functions.sample_reader import SampleReader, uses_of_samples
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, PipelinePartition, StagingFiles
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.tally import Tally

# Number of first samples to inspect, and of parts to try for them.
_FIRST, _MOST_PARTS = 20, 20
_OF_LIST = re.compile(r"(.+)\[\d+\]")
_END = object()


def open_input(request: OpenRequest) -> MakeSource:
    """Calls the function for its first samples; does not run a pipeline. Without one, the input is a collection.

    Raises:
      RequestError: the function fails, yields something else, or its parameters do not fit `parts`.
    """
    function, spec, needs = request.function, request.spec, request.needs
    parts, table = spec.parts, spec
    (root,) = spec.image_root or (storage.absolute("."),)
    # Without a layout, a collection is stored as images with labels, whatever its samples have.
    is_usual = needs.columns is None and not needs.all_columns
    if function is None:
        reader = SampleReader("WriteDataset", root, None, table.group_column, is_usual=is_usual)
        return functools.partial(CollectionSource, reader, "")
    shown = quote_input(function.name)
    try:
        called = function.load()
        needed = [
            name
            for name, parameter in inspect.signature(called).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            and parameter.default is parameter.empty
        ]
    except Exception as error:  # The user's module may raise anything.
        raise _refused(function, error) from error
    if parts and not needed:
        raise RequestError(
            f"{shown}: the function takes no part, and `parts` names {len(parts)}; leave them out",
            code="setting_not_applicable",
        )
    if len(needed) > 1:
        raise RequestError(
            f"{shown}: the function has the parameters {', '.join(needed)}; expected one, for a part, or none",
            code="wrong_parameters",
        )
    calls = tuple((part,) for part in parts) or ((),)
    reader = SampleReader(function.name, root, None, table.group_column)
    if needed and not parts:
        reader = dataclasses.replace(reader, is_usual=is_usual)
        return functools.partial(PipelineSource, function, reader)
    first = _first_samples(function, calls)
    return functools.partial(PythonSource, function, reader, calls, first)


def _first_samples(function: UserFunction, calls: Iterable[tuple[Any, ...]]) -> Sequence[Sample]:
    try:
        for call in itertools.islice(calls, _MOST_PARTS):
            if found := list(itertools.islice(_iterate(function.load()(*call)), _FIRST)):
                break
        else:
            return []
    except Exception as error:  # The user's function may raise anything.
        if isinstance(error, OSError) and storage.is_service_fault(error):
            raise
        raise _refused(function, error) from error
    wrong = next((one for one in found if not isinstance(one, Sample)), None)
    if wrong is not None:
        raise RequestError(
            f"{quote_input(function.name)}: the function returned {type(wrong).__name__}; expected a "
            "beam_tfrecords.Sample for each sample",
            code="wrong_return_type",
        )
    return found


def _refused(function: UserFunction, error: Exception) -> RequestError:
    trace = "".join(traceback.format_exception(error))
    return RequestError(
        f"{quote_input(function.name)}: it fails: {function.describe(error)}", traceback=trace, code="failing_function"
    )


def _iterate(made: Any) -> Iterator[Any]:
    if not isinstance(made, Iterable):
        raise TypeError(f"the function returned {type(made).__name__}; expected that it yields samples")
    return iter(made)


class _SampleSource(Source):
    """Base class of the sources of samples that users make."""

    name = "python"
    description = Description(label_column="label", labels=Labels(may_be_indices=True))

    def __init__(self, reader: SampleReader, needs: Needs, partitions: Sequence[Partition]) -> None:
        super().__init__(partitions)
        self.reader = dataclasses.replace(reader, columns=None if needs.takes_all else needs.columns)
        self._describe(uses=uses_of_samples(self.reader.columns, needs.images, reader.group_column))


class PythonSource(_SampleSource):
    """A function that yields samples, once for each part.

    Args:
      function: the user's function.
      reader: reads its samples.
      calls: arguments of the function for each part.
      first: the first samples, which show the contents.
      needs: requested contents.

    Raises:
      RequestError: the layout needs a column that none of these samples has.
    """

    def __init__(
        self,
        function: UserFunction,
        reader: SampleReader,
        calls: Sequence[tuple[Any, ...]],
        first: Sequence[Sample],
        needs: Needs,
    ) -> None:
        parts = [Partition(reader.name, 0, "", "", part=(function.identity, *call)) for call in calls]
        super().__init__(reader, needs, parts)
        columns = tuple(sorted({column for sample in first for column in sample.columns}))
        missing = sorted({*(needs.columns or ())} - {*columns, "label"})
        if first and missing and not needs.all_columns:
            raise RequestError(
                f"`layout` asks for column.{missing[0]}, and none of the first {len(first)} samples of "
                f"{quote_input(function.name)} has it; they have: {', '.join(columns) or 'no columns'}",
                code="unknown_column",
            )
        lists = [sample.label for sample in first if isinstance(sample.label, list | tuple)]
        if Content.LABEL in needs.contents and are_vectors(lists):
            raise RequestError(
                f"{quote_input(function.name)}: the labels of its first samples are lists of numbers, which are no "
                "classes; put numbers into `columns`, and name the column in the layout",
                code="column_without_labels",
            )
        names = dict.fromkeys(name for sample in first for name in sample.parts["images"])
        of_lists = {name: _OF_LIST.fullmatch(name) for name in names}
        if names:
            self._describe(images={found[1] if found else name: bool(found) for name, found in of_lists.items()})
        if first:
            self._describe(provides=_contents(first), unit="image" if names else "row")
        self._describe(columns=columns, has_several_labels=bool(lists))
        self._function = function

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields one reference per sample of a part; copies bytes and arrays.

        Raises:
          BuildError: the function fails, so that its remaining samples are unknown.
        """
        function, call = self._function, partition.part[1:]
        samples = _guarded(function, lambda: _iterate(function.load()(*call)), call)
        while (sample := _guarded(function, lambda: next(samples, _END), call)) is not _END:
            yield self.reader.read(sample, staging, tally)


class CollectionSource(_SampleSource):
    """A PCollection of samples, whose contents are unknown until its pipeline runs.

    Args:
      reader: reads the samples.
      identity: identifies the code that makes them; "" if it is unknown.
      needs: requested contents.
    """

    def __init__(self, reader: SampleReader, identity: str, needs: Needs) -> None:
        # One partition stands for all samples that the pipeline lists.
        super().__init__(reader, needs, [Partition(reader.name, 0, "", "", part=(identity,))])
        found = {
            Content.LABEL: True,
            Content.COLUMNS: True,
            Content.CAPTIONS: CAPTIONS in (needs.columns or ()),
            Content.OBJECTS: Content.OBJECTS in needs.required,
            **dict.fromkeys(OUTLINES, OUTLINES & needs.contents),
            **dict.fromkeys(needs.contents & {Content.IMAGE, Content.MASK, Content.KEYPOINTS}, True),
        }
        images = dict.fromkeys(needs.images, False) or self.description.images
        self._describe(provides=contents_in(found), images=images)

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Raises an error, because only the pipeline has the samples."""
        raise NotImplementedError


class PipelineSource(CollectionSource):
    """A function that returns a PCollection of samples."""

    def __init__(self, function: UserFunction, reader: SampleReader, needs: Needs) -> None:
        super().__init__(reader, function.identity, needs)
        (one,) = self.partitions
        made = PipelinePartition(
            one.uri,
            one.size,
            one.fingerprint,
            one.key_prefix,
            part=one.part,
            make=function.load(),
            read=self.reader.read,
            function=function,
        )
        self.partitions = [made]


def _contents(first: Sequence[Sample]) -> frozenset[Content]:
    objects = [of for sample in first if (of := sample.objects) is not None]
    found = {
        Content.IMAGE: any(sample.parts["images"] for sample in first),
        Content.LABEL: any(sample.label is not None for sample in first),
        Content.MASK: any(sample.parts["mask"] is not None for sample in first),
        Content.OBJECTS: bool(objects),
        Content.POLYGONS: any(not isinstance(one, np.ndarray) for of in objects for one in of.outlines),
        Content.OBJECT_MASKS: any(len(of.outlines) for of in objects),
        Content.KEYPOINTS: any(of.keypoints.size for of in objects),
        Content.CAPTIONS: any(CAPTIONS in sample.columns for sample in first),
        Content.COLUMNS: any(sample.columns for sample in first),
    }
    return contents_in(found)


def _guarded(function: UserFunction, step: Callable[[], Any], call: Sequence[Any]) -> Any:
    try:
        return step()
    except (MemoryError, BuildError):
        raise
    except Exception as error:  # The user's function may raise anything.
        if isinstance(error, OSError) and storage.is_service_fault(error):
            raise
        part = f", part {call[0]!r}" if call else ""
        what = function.describe(error)
        raise BuildError(f"{quote_input(function.name)}{part}: it fails: {what}") from error
