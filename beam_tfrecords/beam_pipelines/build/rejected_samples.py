"""Stops a pipeline that rejects samples which nobody reads.

A transform with a second output loses the elements of this output unless the pipeline reads it. Whether a transform
reads it is known when the pipeline is complete, so a `DoFn` finds out when it is serialized for the runner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.transforms.window import GlobalWindows

from beam_tfrecords.errors import BuildError, RequestError

if TYPE_CHECKING:
    from apache_beam.pvalue import PCollection

FAILURES = "failures"


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
