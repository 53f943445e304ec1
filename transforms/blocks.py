"""ConvertBlocks: the references of a block in, its parts out; the one place where image bytes are handled."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam

from transforms import storage
from transforms.errors import FailureReason, SampleError, Stage
from transforms.fetching import fetch
from transforms.hashing import order_hash
from transforms.parts import Part, PartPolicy, PartWriter
from transforms.processes.isolation import isolated, time_limit
from transforms.processes.map_in_processes import MapInProcesses
from transforms.refs import BlockKey, SampleRef, split_refs, unpack_key_and_split
from transforms.samples import ConvertedSample
from transforms.stats import Key, Stats
from transforms.tfrecord import Compression

Convert: TypeAlias = "Callable[[SampleRef, bytes | None], ConvertedSample]"

_DUPLICATE_KEY = (FailureReason.DUPLICATE_KEY.value, "another sample has the same key")


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """What a worker needs to know to convert blocks.

    Attributes:
      folder: the build's folder for temporary files.
      seed: of the order.
      policies: split -> when its parts end.
      compression: of the parts.
      read_images: whether the layout needs the images.
      max_file_size: bytes of the largest image file that is read.
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
      failures: file with the samples that it rejected, a JSON object per line; None if there are none.
      stats: its counts.
      failures_bytes: size of the file of failures.
    """

    split: str
    block: int
    parts: tuple[Part, ...]
    failures: str | None
    stats: Stats
    failures_bytes: int = 0

    @property
    def files(self) -> dict[str, int]:
        """File -> size in bytes."""
        sizes: dict[str | None, int] = {self.failures: self.failures_bytes}
        for part in self.parts:
            sizes.update({part.uri: part.bytes, part.index: part.index_bytes})
        return {file: size for file, size in sizes.items() if file is not None}

    def to_json(self) -> dict[str, Any]:
        """As plain values, for the marker of the block."""
        return {**dataclasses.asdict(self), "stats": self.stats.to_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BlockResult:
        """The reverse of `to_json`."""
        parts = tuple(Part(**part) for part in values["parts"])
        return cls(**{**values, "parts": parts, "stats": Stats.from_json(values["stats"])})


class ConvertBlocks(beam.PTransform):
    """Converts and writes blocks: ((split, block), [references joined by `AssignOrder`]) -> BlockResult.

    A block is taken from its marker if the marker and the files that it names are whole. A block that was started
    and not finished, perhaps because a decoder crashed, is converted in a child process. All attempts at one block
    write the same bytes.

    Args:
      plan: what the workers need to know.
      convert: from a reference and the bytes of its image (None for a row without an image) to a sample.
        Whatever it raises is a failure of that sample.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, plan: BlockPlan, convert: Convert, *, processes: int) -> None:
        super().__init__()
        self._convert = functools.partial(convert_block, plan=plan, convert=convert)
        self._processes = processes

    def expand(self, blocks: beam.PCollection[tuple[BlockKey, Iterable[bytes]]]) -> beam.PCollection[BlockResult]:
        return blocks | "ReadConvertWrite" >> MapInProcesses(self._convert, processes=self._processes)


def convert_block(block: tuple[BlockKey, Iterable[bytes]], *, plan: BlockPlan, convert: Convert) -> BlockResult:
    """Converts one block, unless it is finished."""
    (split, number), joined = block
    stem = f"{split}-{number:06d}"
    marker, started = (storage.join(plan.folder, "blocks", f"{stem}.{kind}") for kind in ("json", "started"))
    finished = read_marker(marker)
    if finished is not None:
        return finished
    attempt = functools.partial(convert_sample, convert)
    if storage.exists(started):
        guard = isolated(attempt, plan.image_timeout)
    else:
        storage.write_bytes(started, b"")
        guard = _in_time(attempt, plan.image_timeout)
    refs = _reject_duplicates(read_block(joined, seed=plan.seed))
    with guard as guarded:
        result = _convert_refs(refs, (split, number), stem=stem, plan=plan, convert=guarded)
    storage.write_bytes(marker, json.dumps(result.to_json()).encode())
    return result


def read_marker(marker: str) -> BlockResult | None:
    """The result of a finished block; None if there is no marker, or a power cut emptied it or a file that it names."""
    if not storage.exists(marker):
        return None
    try:
        result = BlockResult.from_json(json.loads(storage.read_bytes(marker)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return result if storage.have_sizes(result.files) else None


def read_block(joined: Iterable[bytes], *, seed: int) -> Iterator[SampleRef]:
    """The references of a block in their final order; equal keys stay next to each other, in an order of their own."""
    packed = [one for together in joined for one in split_refs(together)]
    keys = [unpack_key_and_split(one)[0] for one in packed]
    ordered = sorted(zip((order_hash(seed=seed, key=key) for key in keys), keys, packed, strict=True))
    for _, _, one in ordered:
        yield SampleRef.unpack(one)


def convert_sample(convert: Convert, ref: SampleRef, data: bytes | None) -> ConvertedSample | SampleError:
    """Converts one sample; whatever `convert` raises is a failure of this sample, and of no other."""
    try:
        return convert(ref, data)
    except SampleError as error:
        return error
    except Exception as error:
        return SampleError.internal(Stage.CONVERT, error)


def _convert_refs(
    refs: Iterable[SampleRef],
    key: BlockKey,
    *,
    stem: str,
    plan: BlockPlan,
    convert: Callable[[SampleRef, bytes | None], ConvertedSample | SampleError],
) -> BlockResult:
    split, number = key
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
        for ref, data in fetch(refs, read_images=plan.read_images, max_file_size=plan.max_file_size):
            sample = data if isinstance(data, SampleError) else convert(ref, data)
            if isinstance(sample, SampleError):
                counts["failed", split, sample.reason.value] += 1
                failures.append(_failure_line(ref, sample))
                continue
            writer.add(sample.example, _index_row(ref, sample))
            counts["written", split] += 1
            if isinstance(data, bytes):
                counts["source_bytes",] += len(data)
            if sample.replaced_format:
                counts["stored_as_png", sample.replaced_format] += 1
            for name in sample.class_names:
                counts["class", split, name] += 1
        parts = tuple(writer.close())
    failures_path = storage.join(plan.folder, "failures", f"{stem}.jsonl") if failures else None
    lines = "".join(failures).encode()
    if failures_path:
        storage.write_bytes(failures_path, lines)
    return BlockResult(split, number, parts, failures_path, Stats(dict(counts)), len(lines))


@contextlib.contextmanager
def _in_time(attempt: Callable[..., Any], seconds: float) -> Iterator[Callable[..., Any]]:
    """The conversion in this process, which is killed if a sample takes longer than `seconds`."""

    def convert_in_time(ref: SampleRef, data: bytes | None) -> Any:
        with time_limit(seconds):
            return attempt(ref, data)

    yield convert_in_time


def _reject_duplicates(refs: Iterable[SampleRef]) -> Iterator[SampleRef]:
    """The sorted references; of those with one key, all except the first as failures."""
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
    if error.traceback:
        line["traceback"] = error.traceback
    return json.dumps(line, ensure_ascii=False) + "\n"
