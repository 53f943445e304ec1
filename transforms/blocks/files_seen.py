"""What the files of a block were when it was converted, where the listing does not tell."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping

from beam_tfrecords.transforms.blocks.fetching import fetch, with_fingerprint
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.refs import SampleRef


class FilesSeen:
    """Gives references the fingerprints that the listing does not tell, and sums them up.

    Args:
      hashes_files: as in `BlockPlan`.
    """

    def __init__(self, *, hashes_files: bool) -> None:
        self._hashes_files = hashes_files
        self._sum = 0

    @property
    def digest(self) -> str:
        """Changes with every file whose fingerprint the listing does not tell; "" if it tells all."""
        return f"{self._sum:032x}" if self._sum else ""

    def look_up(self, ref: SampleRef) -> SampleRef:
        """The reference with size and time of its file, if the disk knows them and they count."""
        found = ref if self._hashes_files else with_fingerprint(ref)
        return ref if found is ref else self._add(found)

    def asks_for_bytes(self, ref: SampleRef) -> bool:
        """Whether only the bytes of its files tell whether they have changed."""
        return self._hashes_files or not ref.fingerprint

    def hash_bytes(self, ref: SampleRef, images: Mapping[str, bytes]) -> SampleRef:
        """The reference with the hashes of its files, where only these count.

        Args:
          images: their bytes by the names of the images; empty if they were not read.
        """
        if not images or not self.asks_for_bytes(ref):
            return ref
        return self._add(dataclasses.replace(ref, fingerprint="+".join(map(content_hash, images.values()))))

    def _add(self, ref: SampleRef) -> SampleRef:
        # Files are read in no set order.
        packed = f"{ref.key}\0{ref.fingerprint}".encode(errors="surrogateescape")
        self._sum = (self._sum + int.from_bytes(hashlib.blake2b(packed, digest_size=16).digest(), "big")) % (1 << 128)
        return ref


def look_again(
    refs: Iterable[SampleRef], *, hashes_files: bool, needs_image: Callable[[SampleRef], bool], max_file_size: int
) -> str:
    """`FilesSeen.digest` of the files as they are now.

    Raises:
      BuildError: a service fault.
    """
    seen = FilesSeen(hashes_files=hashes_files)
    known = map(seen.look_up, refs)
    fetched = fetch(
        known, needs_image=lambda ref: needs_image(ref) and seen.asks_for_bytes(ref), max_file_size=max_file_size
    )
    for ref, images in fetched:
        if isinstance(images, Mapping):
            seen.hash_bytes(ref, images)
    return seen.digest
