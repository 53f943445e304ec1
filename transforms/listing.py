"""The listing: every sample's reference, taken once, so that retries and re-starts see the same input."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from transforms import storage
from transforms.errors import FailureReason
from transforms.hashing import SPACE, split_hash
from transforms.spec import NAME_RULE, Splits, is_name
from transforms.values import SampleRef, Scalar, pack_refs, part_refs

CHUNK_REFS = 10_000
DEFAULT_SPLIT = "train"
# Splits that sources name in other ways than TFDS does.
_SYNONYMS = {"val": "validation", "valid": "validation"}


@dataclasses.dataclass
class Listing:
    """What a listing adds up to.

    Attributes:
      samples: split -> samples; "" holds those without a valid split.
      bytes: split -> bytes of their source files, as far as the source tells.
      labels: label -> samples, if they were counted; None counts those without.
      fingerprint: changes when a sample is added, removed or changed; does not depend on their order.
    """

    samples: Counter[str] = dataclasses.field(default_factory=Counter)
    bytes: Counter[str] = dataclasses.field(default_factory=Counter)
    labels: Counter[Scalar] = dataclasses.field(default_factory=Counter)
    fingerprint: str = ""

    @property
    def total(self) -> int:
        """All samples."""
        return sum(self.samples.values())


def assign_split(ref: SampleRef, *, splits: Splits, seed: int) -> SampleRef:
    """The ref with its final split, or with a failure if the source's word for it can't be one."""
    if splits.fractions:
        return ref.with_split(_cut(split_hash(seed=seed, key=ref.key), splits.fractions))
    named = _name_split(ref.split)
    if named is not None:
        return ref if named == ref.split else ref.with_split(named)
    failure = ref.failure or (FailureReason.UNKNOWN_SPLIT.value, f"split {ref.split!r}; expected {NAME_RULE}")
    return dataclasses.replace(ref, split=None, failure=failure)


@functools.lru_cache(maxsize=64)
def _name_split(word: str | None) -> str | None:
    """The split that a source's word means, or None if it can't be one."""
    named = _SYNONYMS.get(word, word) if word else DEFAULT_SPLIT
    return named if is_name(named) and named != "all" else None


def write_listing(
    samples: Iterable[SampleRef], folder: str, *, splits: Splits, seed: int, count_labels: bool = True
) -> tuple[Listing, list[str]]:
    """Writes the refs, with their splits, to chunk files in a local folder, holding one chunk at a time.

    Args:
      samples: the refs.
      folder: where the chunk files go.
      splits: how samples get their split.
      seed: of fractions of splits.
      count_labels: False where no label is asked for: a column of them may have another one in every row.

    Returns:
      What they add up to, and the chunk files.
    """
    listing = Listing()
    fingerprint = 0
    chunks: list[str] = []
    pending: list[bytes] = []
    for count, sample in enumerate(samples, start=1):
        ref = assign_split(sample, splits=splits, seed=seed)
        split = ref.split or ""
        listing.samples[split] += 1
        listing.bytes[split] += ref.size
        if count_labels and ref.failure is None:
            for label in ref.label if isinstance(ref.label, list) else (ref.label,):
                listing.labels[label] += 1
        packed = ref.pack()
        # A sum does not depend on the order in which a file system lists its files.
        fingerprint += int.from_bytes(hashlib.blake2b(packed, digest_size=16).digest(), "big")
        pending.append(packed)
        if count % CHUNK_REFS == 0:
            chunks.append(_write_chunk(folder, len(chunks), pending))
            pending = []
    if pending:
        chunks.append(_write_chunk(folder, len(chunks), pending))
    listing.fingerprint = f"{fingerprint % (1 << 128):032x}"
    return listing, chunks


def read_listing(chunk: str) -> Iterator[bytes]:
    """The packed refs of one chunk file."""
    yield from part_refs(storage.read_bytes(chunk))


def _write_chunk(folder: str, number: int, packed: list[bytes]) -> str:
    path = os.path.join(folder, f"{number:06d}.refs")
    storage.write_bytes(path, pack_refs(packed))
    return path


def _cut(value: int, fractions: Mapping[str, float]) -> str:
    bound = 0.0
    for split, fraction in fractions.items():
        bound += fraction
        if value < bound * SPACE:
            return split
    return split
