"""Writes the samples of a block in their order, small ones many at once: examples, index rows, counts, failures."""

from __future__ import annotations

import itertools
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from beam_tfrecords.errors import TRIED_AGAIN, FailureReason, SampleError, Stage
from beam_tfrecords.tfrecord import masked_crc32c
from beam_tfrecords.transforms.blocks.convert_sample import ConvertedSample, ConvertSample, PreparedSample
from beam_tfrecords.transforms.blocks.fetching import Fetched
from beam_tfrecords.transforms.blocks.reuse import BlockReuse
from beam_tfrecords.transforms.parts import PartWriter
from beam_tfrecords.transforms.refs import SampleRef, describe_locator
from beam_tfrecords.transforms.stats import Change, Key, count_record

_log = logging.getLogger(__name__)
# Also told to the log of the worker whose child died.
_PROCESS_ENDED = (FailureReason.DECODER_CRASH, FailureReason.DECODE_TIMEOUT)
# Samples that are held at once, if their files are as small; a larger one is alone. Memory: 1 MB.
_TOGETHER, _SMALL_BYTES = 64, 1 << 14


# What became of a sample before it is written.
Outcome: TypeAlias = "PreparedSample | ConvertedSample | SampleError"


class ReadSample(NamedTuple):
    """A sample that is to be written.

    Attributes:
      change: as in `BlockReuse.count`.
      source_bytes: of the files of its images.
    """

    ref: SampleRef
    found: Outcome
    change: Change | None
    source_bytes: int


def group_small(
    fetched: Iterable[tuple[SampleRef, Fetched]], *, most: int | None = None
) -> Iterator[deque[tuple[SampleRef, Fetched]]]:
    """The samples in their order, some at once if their files are small; what is taken from a group is not held.

    Args:
      fetched: of a block.
      most: of a group.
    """
    group: deque[tuple[SampleRef, Fetched]] = deque()
    for ref, images in fetched:
        is_small = isinstance(images, SampleError) or sum(map(len, images.values())) <= _SMALL_BYTES
        if group and not is_small:
            yield group
            group = deque()
        group.append((ref, images))
        del images
        if not is_small or len(group) == (most or _TOGETHER):
            yield group
            group = deque()
    if group:
        yield group


class SampleWriter:
    """Writes samples in their order.

    Args:
      convert: has prepared them.
      attempt: `convert_sample`, without the function that converts.
      writer: receives their records.
      counts: receives what they add to it.
      split: of the block.
      reuse: is told what became of each.
      launch: this launch.

    Attributes:
      failures: of the samples that are rejected, a JSON object per line.
      launch: the launch, if it has rejected what the next one tries again; else "".
    """

    def __init__(
        self,
        convert: ConvertSample | None,
        attempt: Callable[..., Any],
        writer: PartWriter,
        counts: Counter[Key],
        *,
        split: str,
        reuse: BlockReuse | None,
        launch: str,
    ) -> None:
        self.failures: list[str] = []
        self.launch = ""
        self._convert, self._attempt = convert, attempt
        self._writer, self._counts, self._split, self._reuse = writer, counts, split, reuse
        self._this_launch = launch
        self._waiting: list[ReadSample] = []
        self._size = 0

    def add(self, sample: ReadSample) -> None:
        """Adds a sample, which is written when some have come together."""
        self._waiting.append(sample)
        if isinstance(sample.found, PreparedSample):
            self._size += sample.found.size
        if self._size > _TOGETHER * _SMALL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what is waiting."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        written: list[tuple[SampleRef, ConvertedSample]] = []
        for (ref, _, change, source_bytes), made in zip(waiting, self._finish(waiting), strict=True):
            if self._reuse:
                self._reuse.count(ref, made, change)
            if isinstance(made, SampleError):
                self._reject(ref, made)
                continue
            written.append((ref, made))
            count_record(self._counts, self._split, made.class_names, made.facts)
            self._counts["source_bytes",] += source_bytes
        rows = [_index_row(ref, made) for ref, made in written]
        examples = [made.example for _, made in written]
        if rows:
            self._writer.add(examples, list(map(masked_crc32c, examples)), _to_columns(rows))

    def _finish(self, samples: Sequence[ReadSample]) -> list[ConvertedSample | SampleError]:
        """The examples of all that are only prepared."""
        prepared = [(one.ref, one.found) for one in samples if isinstance(one.found, PreparedSample)]
        made = iter(self._finish_prepared(prepared))
        return [next(made) if isinstance(one.found, PreparedSample) else one.found for one in samples]

    def _finish_prepared(
        self, prepared: Sequence[tuple[SampleRef, PreparedSample]]
    ) -> Sequence[ConvertedSample | SampleError]:
        if not prepared or self._convert is None:
            return []
        refs, found = zip(*prepared, strict=True)
        finish = self._convert.finish
        if len(prepared) == 1:
            return [self._attempt(lambda ref, _: finish([ref], found)[0], refs[0], {})]
        try:
            return finish(refs, found)
        except Exception:
            # Of one of them, alone it reaches `attempt`, which knows what is the fault of the sample.
            middle = len(prepared) // 2
            return [*self._finish_prepared(prepared[:middle]), *self._finish_prepared(prepared[middle:])]

    def _reject(self, ref: SampleRef, error: SampleError) -> None:
        if error.reason in _PROCESS_ENDED:
            _log.warning("%s: %s", ref.uri or ref.key, error.detail)
        self._counts["failed", self._split, error.reason.value] += 1
        self.failures.append(_failure_line(ref, error))
        # The listing of every launch is a new one, so what it rejects is not tried again here.
        if error.reason in TRIED_AGAIN and error.stage is not Stage.LIST:
            self.launch = self._this_launch


def _index_row(ref: SampleRef, made: ConvertedSample) -> dict[str, Any]:
    return {"key": ref.key, "uri": ref.uri, "fingerprint": ref.fingerprint, "label": made.label, **made.facts}


def _to_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """The columns that have a value in some row."""
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {name: values for name, values in columns.items() if values.count(None) < len(values)}


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
