"""Writes the samples of a block by batches: examples, index rows, counts, failures."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords.errors import TRIED_AGAIN, FailureReason, SampleError, Stage
from beam_tfrecords.transforms.blocks.convert_sample import ConvertedBatch, ConvertSample, PreparedSample
from beam_tfrecords.transforms.blocks.guard import failure_of
from beam_tfrecords.transforms.parts import PartWriter
from beam_tfrecords.transforms.ref_columns import RefColumns
from beam_tfrecords.transforms.refs import SampleRef, describe_locator
from beam_tfrecords.transforms.stats import Key, count_records

_log = logging.getLogger(__name__)
# Also told to the log of the worker whose child died.
_PROCESS_ENDED = (FailureReason.DECODER_CRASH, FailureReason.DECODE_TIMEOUT)


class SampleWriter:
    """Writes samples in their order.

    Args:
      convert: makes their examples.
      memory: bytes that the conversion of a sample may take.
      writer: receives their records.
      counts: receives what they add to it.
      split: of the block.
      launch: this launch.

    Attributes:
      failures: of the samples that are rejected, a JSON object per line.
      launch: the launch, if it has rejected what the next one tries again; else "".
    """

    def __init__(
        self,
        convert: ConvertSample,
        writer: PartWriter,
        counts: Counter[Key],
        *,
        memory: int,
        split: str,
        launch: str,
    ) -> None:
        self.failures: list[str] = []
        self.launch = ""
        self._convert, self._memory = convert, memory
        self._writer, self._counts, self._split = writer, counts, split
        self._this_launch = launch

    def write(
        self, refs: RefColumns, outcomes: Sequence[PreparedSample | SampleError], source_bytes: Sequence[int]
    ) -> list[str | SampleError | None]:
        """Writes a batch; returns the label of each sample, or why it is rejected.

        Args:
          source_bytes: of the files of the images of each.
        """
        made: list[str | SampleError | None] = [one if isinstance(one, SampleError) else None for one in outcomes]
        prepared = {place: one for place, one in enumerate(outcomes) if isinstance(one, PreparedSample)}
        for places, found in self._finish(refs, prepared):
            if isinstance(found, SampleError):
                made[places[0]] = found
                continue
            self._write(refs if len(places) == len(refs) else refs.take(places), found)
            self._counts["source_bytes",] += sum(source_bytes[place] for place in places)
            for place, label in zip(places, found.labels, strict=True):
                made[place] = label
        for place, one in enumerate(made):
            if isinstance(one, SampleError):
                self._reject(refs[place], one)
        return made

    def _finish(
        self, refs: RefColumns, prepared: dict[int, PreparedSample]
    ) -> Iterator[tuple[list[int], ConvertedBatch | SampleError]]:
        """The examples, in pieces of the batch: the places of the samples, and the samples or why one is rejected."""
        places = list(prepared)
        if not places:
            return
        chosen = refs if len(places) == len(refs) else refs.take(places)
        try:
            yield places, self._convert.finish(chosen, list(prepared.values()))
            return
        except Exception as error:
            if len(places) == 1:
                yield places, failure_of(error, refs[places[0]], memory=self._memory)
                return
        middle = len(places) // 2
        for half in (places[:middle], places[middle:]):
            yield from self._finish(refs, {place: prepared[place] for place in half})

    def _write(self, refs: RefColumns, made: ConvertedBatch) -> None:
        count_records(self._counts, self._split, made.class_names, made.facts)
        columns: dict[str, Sequence[Any]] = {
            "key": refs.keys,
            "uri": refs.uris(),
            "fingerprint": refs.each("fingerprint"),
            "label": made.labels,
            **made.facts,
        }
        known = {name: values for name, values in columns.items() if values.count(None) < len(refs)}
        self._writer.add(made.examples, made.crcs, known)

    def _reject(self, ref: SampleRef, error: SampleError) -> None:
        if error.reason in _PROCESS_ENDED:
            _log.warning("%s: %s", ref.uri or ref.key, error.detail)
        self._counts["failed", self._split, error.reason.value] += 1
        self.failures.append(_failure_line(ref, error))
        # The listing of every launch is a new one, so what it rejects is not tried again here.
        if error.reason in TRIED_AGAIN and error.stage is not Stage.LIST:
            self.launch = self._this_launch


def _failure_line(ref: SampleRef, error: SampleError) -> str:
    line: dict[str, Any] = {
        "key": ref.key,
        "uri": ref.uri,
        "stage": error.stage.value,
        "reason": error.reason.value,
        "detail": error.detail,
    }
    if locator := describe_locator(ref.locator):
        line["locator"] = locator
    if error.traceback:
        line["traceback"] = error.traceback
    return json.dumps(line, ensure_ascii=False) + "\n"
