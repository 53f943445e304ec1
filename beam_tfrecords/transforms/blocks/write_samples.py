"""Writes the samples of a block in batches: examples, index rows, counts and failures."""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_tfrecords.errors import TRIED_AGAIN, FailureReason, SampleError, Stage
from beam_tfrecords.escaping import escape, write_json
from beam_tfrecords.output.published_paths import UNCHANGED, PublishedPaths
from beam_tfrecords.transforms.blocks.convert_sample import ConvertedBatch, ConvertSample, PreparedSample
from beam_tfrecords.transforms.blocks.guard import failure_of
from beam_tfrecords.transforms.parts import PartWriter
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, describe_locator
from beam_tfrecords.transforms.stats import Key, count_records

if TYPE_CHECKING:
    from beam_tfrecords.transforms.blocks.filtering import Condition

_log = logging.getLogger(__name__)


class Left(enum.Enum):
    """Marks a sample that the request leaves out, so that it is not written."""

    FILTERED = enum.auto()


# The outcome of a sample: its label, why it is rejected, or that it is left out.
Written: TypeAlias = "str | SampleError | Left | None"
# These failures are also logged by the worker whose child process ended.
_PROCESS_ENDED = (FailureReason.DECODER_CRASH, FailureReason.DECODE_TIMEOUT)


class SampleWriter:
    """Writes samples in order.

    Args:
      convert: makes the examples.
      memory: bytes of memory that the conversion of a sample may take.
      writer: receives the records.
      counts: receives the counts of the samples.
      split: split of the block.
      run_id: identifies this run.
      where: condition that samples have to fulfil; None keeps all samples.

    Attributes:
      failures: failures of the rejected samples, a JSON object per line.
      run_id: this run if it rejected samples that the next run retries; else "".
    """

    def __init__(
        self,
        convert: ConvertSample,
        writer: PartWriter,
        counts: Counter[Key],
        *,
        memory: int,
        split: str,
        run_id: str,
        where: Condition | None = None,
    ) -> None:
        self.failures: list[str] = []
        self.run_id = ""
        self._convert, self._memory = convert, memory
        self._writer, self._counts, self._split = writer, counts, split
        self._run_id = run_id
        self._where = where

    def write(
        self, refs: RefColumns, outcomes: Sequence[PreparedSample | SampleError], source_bytes: Sequence[int]
    ) -> list[Written]:
        """Writes a batch; returns the outcome of each sample.

        Args:
          source_bytes: bytes of the image files of each sample.
        """
        prepared = [one for one in outcomes if isinstance(one, PreparedSample)]
        if len(prepared) == len(refs):
            made = self._finish(refs, prepared, source_bytes)
        else:
            places = [place for place, one in enumerate(outcomes) if isinstance(one, PreparedSample)]
            rest = iter(self._finish(refs.take(places), prepared, [source_bytes[place] for place in places]))
            made = [one if isinstance(one, SampleError) else next(rest) for one in outcomes]
        for place, one in enumerate(made):
            if isinstance(one, SampleError):
                self._reject(refs[place], one)
        return made

    def _finish(
        self, refs: RefColumns, prepared: Sequence[PreparedSample], source_bytes: Sequence[int]
    ) -> list[Written]:
        """Makes and writes examples. Halves a batch that fails, until it contains only the sample that fails."""
        if not prepared:
            return []
        try:
            made = self._convert.finish(refs, prepared)
        except Exception as error:
            if len(refs) == 1:
                return [failure_of(error, refs[0], memory=self._memory)]
            middle = len(refs) // 2
            return [
                *self._finish(refs.slice(0, middle), prepared[:middle], source_bytes[:middle]),
                *self._finish(refs.slice(middle, len(refs)), prepared[middle:], source_bytes[middle:]),
            ]
        labels: list[Written] = list(made.labels)
        if self._where is not None:
            passes = self._where.passes(refs, made, split=self._split, paths=self._convert.paths)
            kept = [place for place, fits in enumerate(passes) if fits]
            labels = [label if fits else Left.FILTERED for label, fits in zip(labels, passes, strict=True)]
            self._counts["filtered", self._split] += len(refs) - len(kept)
            refs, made, source_bytes = refs.take(kept), made.take(kept), [source_bytes[place] for place in kept]
        if len(refs):
            self._write(refs, made)
            self._counts["source_bytes",] += sum(source_bytes)
        return labels

    def _write(self, refs: RefColumns, made: ConvertedBatch) -> None:
        count_records(self._counts, self._split, made.class_names, made.index_columns, heads=made.heads)
        columns: dict[str, Sequence[Any]] = {
            "key": refs.keys,
            "uri": refs.uris(self._convert.paths),
            "fingerprint": refs.fingerprints(self._convert.paths),
            "label": made.labels,
            **made.index_columns,
        }
        known = {name: values for name, values in columns.items() if values.count(None) < len(refs)}
        self._writer.add(made.examples, made.crcs, known)

    def _reject(self, ref: SampleRef, error: SampleError) -> None:
        if error.reason in _PROCESS_ENDED:
            _log.warning("%s: %s", escape(ref.uri or ref.key), error.detail)
        self._counts["failed", self._split, error.reason.value] += 1
        self.failures.append(write_json(describe_failure(ref, error, self._convert.paths)) + "\n")
        # Every run lists the input again, which retries samples that the listing rejected.
        if error.reason in TRIED_AGAIN and error.stage is not Stage.LIST:
            self.run_id = self._run_id


def describe_failure(ref: SampleRef, error: SampleError, paths: PublishedPaths = UNCHANGED) -> dict[str, Any]:
    """Returns a failure as the values of a line of `failures.jsonl`, with published paths."""
    line: dict[str, Any] = {
        "key": ref.key,
        "uri": ref.uri and paths.publish(ref.uri),
        "stage": error.stage.value,
        "reason": error.reason.value,
        "detail": paths.publish_text(error.detail),
    }
    if locator := describe_locator(ref.locator):
        line["locator"] = {**locator, "uri": paths.publish(locator["uri"])}
    if error.traceback:
        line["traceback"] = paths.publish_traceback(error.traceback)
    return line
