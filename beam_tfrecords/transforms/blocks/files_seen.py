"""Fingerprints the files of a block that the listing has no fingerprints for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.blocks.fetching import Fetched, fetch, with_fingerprints
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.refs.ref_columns import RefColumns


class FilesSeen:
    """Adds fingerprints that the listing lacks to references, and sums them up in a digest.

    Args:
      hashes_files: as in `BlockPlan`.
    """

    def __init__(self, *, hashes_files: bool) -> None:
        self._hashes_files = hashes_files
        self._sum = 0

    @property
    def digest(self) -> str:
        """Digest that changes with every file without a listed fingerprint; "" if all fingerprints are listed."""
        return f"{self._sum:032x}" if self._sum else ""

    def look_up(self, refs: RefColumns) -> RefColumns:
        """Returns the references with sizes and times of local files, unless files are fingerprinted by their bytes."""
        found = refs if self._hashes_files else with_fingerprints(refs)
        if found is not refs:
            for key, was, fingerprint in zip(
                refs.keys, refs.each("fingerprint"), found.each("fingerprint"), strict=True
            ):
                if fingerprint != was:
                    self._add(key, fingerprint)
        return found

    def asks_for_bytes(self, refs: RefColumns) -> list[bool]:
        """Returns for each reference whether only the bytes of its files show that they have changed."""
        return [self._hashes_files or not fingerprint for fingerprint in refs.each("fingerprint")]

    def hash_bytes(self, refs: RefColumns, fetched: Sequence[Fetched]) -> RefColumns:
        """Returns the references with the hashes of their files as fingerprints, where `asks_for_bytes` is true.

        Args:
          fetched: the images of each reference, if they were read.
        """
        asking = self.asks_for_bytes(refs)
        if not (any(asking) and any(fetched)):
            return refs
        fingerprints = list(refs.each("fingerprint"))
        for index, (images, asks) in enumerate(zip(fetched, asking, strict=True)):
            if asks and images and not isinstance(images, SampleError):
                fingerprints[index] = "+".join(map(content_hash, images.values()))
                self._add(refs.keys[index], fingerprints[index])
        return refs.replace(fingerprint=fingerprints)

    def _add(self, key: str, fingerprint: str) -> None:
        # A sum, because the order in which files are read varies.
        packed = f"{key}\0{fingerprint}".encode(errors="surrogateescape")
        self._sum = (self._sum + int.from_bytes(hashlib.blake2b(packed, digest_size=16).digest(), "big")) % (1 << 128)


def look_again(batches: Iterable[RefColumns], *, hashes_files: bool, needs_image: bool, max_file_size: int) -> str:
    """Returns `FilesSeen.digest` of the files in their present state.

    Args:
      needs_image: whether the layout needs images.

    Raises:
      BuildError: a service fault.
    """
    seen = FilesSeen(hashes_files=hashes_files)

    def needs_images(refs: RefColumns) -> list[bool]:
        return [needs_image and asks for asks in seen.asks_for_bytes(refs)]

    for refs, images in fetch(map(seen.look_up, batches), needs_images=needs_images, max_file_size=max_file_size):
        seen.hash_bytes(refs, images)
    return seen.digest
