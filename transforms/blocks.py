"""The refs of a block in, its part files out; the one place where image bytes are handled."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from transforms import storage
from transforms.errors import FailureReason, SampleError
from transforms.fetching import fetch
from transforms.isolation import Convert, IsolatedConverter, TimeLimit
from transforms.ordering import sort_refs
from transforms.parts import PartPolicy, PartWriter
from transforms.stats import Key, Stats
from transforms.tfrecord import Compression
from transforms.values import ConvertedSample, Part, SampleRef, unpack_refs

# Beside a block's marker: somebody has begun it.
_BEGUN = ".begun"
_DUPLICATE_KEY = (FailureReason.DUPLICATE_KEY.value, "another sample has the same key")


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """What a worker needs to know to convert blocks.

    Attributes:
      folder: the build's folder for temporary files.
      seed: of the order.
      policies: split -> when its parts end.
      compression: of the parts.
      read_images: whether the layout needs the images at all.
      max_file_size: bytes of the largest source file that is read.
      image_timeout: seconds that the conversion of one sample may take.
    """

    folder: str
    seed: int
    policies: Mapping[str, PartPolicy]
    compression: Compression
    read_images: bool
    max_file_size: int
    image_timeout: float


@dataclasses.dataclass(frozen=True)
class BlockResult:
    """A finished block.

    Attributes:
      split: its split.
      block: its number.
      parts: its part files, in order.
      failures: file with the samples that it refused, a JSON object a line; None if there are none.
      stats: its counts.
    """

    split: str
    block: int
    parts: tuple[Part, ...]
    failures: str | None
    stats: Stats

    def to_json(self) -> dict[str, Any]:
        """As plain values, for the block's marker."""
        return {
            "split": self.split,
            "block": self.block,
            "parts": [part.to_json() for part in self.parts],
            "failures": self.failures,
            "stats": self.stats.to_json(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BlockResult:
        """The reverse of `to_json`."""
        parts = tuple(Part(**part) for part in values["parts"])
        return cls(values["split"], values["block"], parts, values["failures"], Stats.from_json(values["stats"]))


def convert_block(
    block: tuple[tuple[str, int], Iterable[bytes]],
    *,
    plan: BlockPlan,
    convert: Convert,
) -> BlockResult:
    """Converts one block, unless its marker says that this has been done."""
    (split, number), packed = block
    stem = f"{split}-{number:06d}"
    marker = marker_path(plan.folder, stem)
    if storage.exists(marker):
        return BlockResult.from_json(json.loads(storage.read_bytes(marker)))
    with _guarded(convert, plan, begun=storage.join(plan.folder, "blocks", f"{stem}{_BEGUN}")) as guarded:
        result = _convert_refs(split, number, stem, packed, plan=plan, convert=guarded)
    storage.write_bytes(marker, json.dumps(result.to_json()).encode())
    return result


def _convert_refs(
    split: str, number: int, stem: str, packed: Iterable[bytes], *, plan: BlockPlan, convert: Convert
) -> BlockResult:
    refs = sort_refs([ref for together in packed for ref in unpack_refs(together)], seed=plan.seed)
    counts: Counter[Key] = Counter()
    failures: list[str] = []
    with PartWriter(
        folder=storage.join(plan.folder, "parts"),
        stem=stem,
        split=split,
        block=number,
        policy=plan.policies[split],
        compression=plan.compression,
    ) as writer:
        fetched = fetch(_refuse_duplicates(refs), read_images=plan.read_images, max_file_size=plan.max_file_size)
        for ref, data in fetched:
            try:
                if isinstance(data, SampleError):
                    raise data
                sample = convert(ref, data)
            except SampleError as error:
                counts["failed", split, error.reason.value] += 1
                failures.append(_failure_line(ref, error))
                continue
            writer.add(sample.example, _index_row(ref, sample))
            counts["written", split] += 1
            counts["source_bytes",] += len(data or b"")
            for name in sample.class_names:
                counts["class", split, name] += 1
        parts = tuple(writer.close())
    failures_path = storage.join(plan.folder, "failures", f"{stem}.jsonl") if failures else None
    if failures_path:
        storage.write_bytes(failures_path, "".join(failures).encode())
    return BlockResult(split, number, parts, failures_path, Stats(dict(counts)))


def marker_path(folder: str, stem: str) -> str:
    """Where the marker of a finished block is."""
    return storage.join(folder, "blocks", f"{stem}.json")


@contextlib.contextmanager
def _guarded(convert: Convert, plan: BlockPlan, *, begun: str) -> Iterator[Convert]:
    """The conversion under a time limit, or in a process of its own if an earlier attempt did not end."""
    if storage.exists(begun):
        isolated = IsolatedConverter(convert, plan.image_timeout)
        try:
            yield isolated
        finally:
            isolated.close()
        return
    storage.write_bytes(begun, b"")
    limit = _time_limit(plan.image_timeout)

    def convert_in_time(ref: SampleRef, data: bytes | None) -> ConvertedSample:
        with limit.watch():
            return convert(ref, data)

    yield convert_in_time


@functools.cache
def _time_limit(seconds: float) -> TimeLimit:
    # One for the process: its threads share the timer.
    return TimeLimit(seconds)


def _refuse_duplicates(refs: Iterable[SampleRef]) -> Iterator[SampleRef]:
    """The sorted refs, all but the first of those with one key as failures."""
    before = None
    for ref in refs:
        if ref.key == before:
            ref = dataclasses.replace(ref, failure=_DUPLICATE_KEY)
        before = ref.key
        yield ref


def _index_row(ref: SampleRef, sample: ConvertedSample) -> dict[str, Any]:
    return {
        "key": ref.key,
        "uri": ref.uri,
        "fingerprint": ref.fingerprint,
        "content_hash": sample.content_hash,
        "label": sample.class_names[0] if len(sample.class_names) == 1 else None,
        "height": sample.height,
        "width": sample.width,
    }


def _failure_line(ref: SampleRef, error: SampleError) -> str:
    line = {
        "key": ref.key,
        "uri": ref.uri,
        "stage": error.stage.value,
        "reason": error.reason.value,
        "detail": error.detail,
    }
    return json.dumps(line, ensure_ascii=False) + "\n"
