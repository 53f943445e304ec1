"""Reads the images of a block in batches: one after another from a disk, ahead of time from a slower store.

Fingerprints files that the listing has no fingerprints for.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.images.raw_pixels import as_file
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import File, Locator, PixelRange, SampleRef, is_mask
from beam_tfrecords.transforms.service_faults import retry_faults

# An object store takes 20 to 200 ms per image, whatever its size. Requests start with _THREADS in parallel, and
# _MORE_THREADS are added whenever the next image has not arrived yet.
_THREADS, _MORE_THREADS, _MOST_THREADS = 16, 4, 64
# Maximum bytes that are read and not yet converted, which bounds the memory of a worker.
_AHEAD_BYTES = 32 << 20
# Bytes read ahead of a remote file of unknown size, as listed by tables. A larger file is read when its turn comes.
_HEAD_BYTES = 1 << 20
# Samples in a batch, without and with images.
_ROWS, _IMAGES = 256, 64
# Bytes of images that end a batch. For a disk, reading many images in a row keeps the reading code in the processor's
# caches; for a store, small batches let the next requests start sooner.
_DISK_BYTES, _STORE_BYTES = 1 << 20, 1 << 14

# Image name -> bytes, empty for a row without images; or why the images could not be read.
Fetched: TypeAlias = "dict[str, bytes] | SampleError"
_NO_IMAGES: Fetched = {}


class _Waiting(NamedTuple):
    """A reference, its batch and position in it, the images being read ahead, and their estimated size in bytes."""

    refs: RefColumns
    place: int
    ref: SampleRef
    future: Future[Fetched | None]
    size: int


def fetch(
    batches: Iterable[RefColumns], *, needs_images: Callable[[RefColumns], Sequence[bool]], max_file_size: int
) -> Iterator[tuple[RefColumns, deque[Fetched]]]:
    """Yields the references in order, in batches small enough to hold their images in memory, with these images.

    This function keeps no reference to images that the caller pops from the deque.

    Args:
      needs_images: returns for each reference whether to read its images.
    """
    of, start = RefColumns.of_rows([], [], {}), 0
    batch, size, most = deque[Fetched](), 0, 0
    for refs, place, found in _read_in_order(batches, needs_images, max_file_size):
        if batch and of is not refs:
            yield of.slice(start, start + len(batch)), batch
            batch, size = deque(), 0
        if of is not refs:
            most = _STORE_BYTES if any(map(storage.has_scheme, refs.files())) else _DISK_BYTES
        of, start = (of, start) if batch else (refs, place)
        batch.extend(found)
        size += sum(len(data) for images in found if isinstance(images, dict) for data in images.values())
        del found
        if size >= most or len(batch) >= _IMAGES:
            yield of.slice(start, start + len(batch)), batch
            batch, size = deque(), 0
    if batch:
        yield of.slice(start, start + len(batch)), batch


def _read_in_order(
    batches: Iterable[RefColumns], needs_images: Callable[[RefColumns], Sequence[bool]], max_file_size: int
) -> Iterator[tuple[RefColumns, int, list[Fetched]]]:
    """Yields runs of fetched references: (references, position of the first, images of each)."""
    waiting: deque[_Waiting] = deque()
    ahead, most = 0, _THREADS
    with ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="fetch") as threads:
        for refs in batches:
            needed = needs_images(refs)
            if not (waiting or any(needed)):
                found = [_failure_of(failure) if failure else _NO_IMAGES for failure in refs.each("failure")]
                for start in range(0, len(refs), _ROWS):
                    yield refs, start, found[start : start + _ROWS]
                continue
            for index, (ref, is_needed) in enumerate(zip(refs, needed, strict=True)):
                images = ref.images if ref.failure is None and is_needed else {}
                is_remote = any(storage.has_scheme(locator.uri) for locator in images.values())
                if not (is_remote or waiting):
                    yield refs, index, [_read(ref, images, max_file_size) or _NO_IMAGES]
                    continue
                size = sum(min(_size(ref, name), max_file_size) or _HEAD_BYTES for name in images)
                while waiting and (ahead + size > _AHEAD_BYTES or len(waiting) >= most):
                    if len(waiting) >= most and not waiting[0].future.done():
                        most = min(most + _MORE_THREADS, _MOST_THREADS)

                    ahead -= waiting[0].size
                    yield _finish(waiting.popleft(), max_file_size)
                future = threads.submit(_read, ref, images, max_file_size, is_ahead=True)
                waiting.append(_Waiting(refs, index, ref, future, size))
                ahead += size
        while waiting:
            yield _finish(waiting.popleft(), max_file_size)


def with_fingerprints(refs: RefColumns) -> RefColumns:
    """Returns the samples with sizes and fingerprints of local files where the source does not give them.

    Raises:
      BuildError: a service fault.
    """
    if not any(refs.each("images")) or all(refs.each("fingerprint")):
        return refs
    return RefColumns.join(list(RefColumns.of(map(_look_up, refs))))


def _look_up(ref: SampleRef) -> SampleRef:
    if ref.fingerprint or ref.failure is not None or len(ref.images) != 1 or not isinstance(ref.locator, File):
        return ref
    if storage.has_scheme(ref.locator.uri):  # a stat request for every file would cost more than reading the file
        return ref
    try:
        entry = retry_faults(ref.locator.uri, functools.partial(storage.stat, ref.locator.uri))
    except OSError:  # reading the file will raise it again
        return ref
    locator = dataclasses.replace(ref.locator, version=entry.version)
    images = dict.fromkeys(ref.images, locator)
    return dataclasses.replace(ref, images=images, size=entry.size, fingerprint=entry.fingerprint)


def read_images(ref: SampleRef, *, max_file_size: int) -> Fetched:
    """Reads all images of a sample; returns an error if the sample is rejected.

    Raises:
      BuildError: a service fault.
    """
    return _read(ref, ref.images, max_file_size) or _NO_IMAGES


def read_image(locator: Locator, *, size: int, max_file_size: int) -> bytes | SampleError:
    """Reads the bytes of one image; returns an error if the sample is rejected.

    Args:
      size: size of the image in bytes; 0 if unknown.

    Raises:
      BuildError: a service fault.
    """
    try:
        data = retry_faults(locator.uri, lambda: _read_listed(locator, size=size, max_file_size=max_file_size))
        if isinstance(locator, PixelRange):
            of = locator
            data = as_file(data, shape=of.shape, axes=of.axes, dtype=of.dtype, limits=of.limits)
    except BuildError:
        raise
    except Exception as error:
        return _failure(error)
    return data or SampleError(Stage.READ, FailureReason.EMPTY, "the file has no bytes")


def _read_listed(locator: Locator, *, size: int, max_file_size: int) -> bytes:
    """Reads the bytes of a locator, and checks that version and size are as listed.

    Raises:
      SampleError: the file is too large, or has changed.
      OSError: the file cannot be read.
    """
    if storage.is_web(locator.uri):
        # A web server need not send the size.
        data = storage.read_range(locator.uri, 0, max_file_size + 1)
        if len(data) > max_file_size:
            raise _too_large(len(data), max_file_size)
        return data
    if isinstance(locator, File) and storage.is_place(locator.version):
        return _read_member(locator, max_file_size)
    found = size or (storage.stat(locator.uri).size if isinstance(locator, File) else 0)
    if found > max_file_size:
        raise _too_large(found, max_file_size)
    if isinstance(locator, File):
        listed = size
        if storage.has_scheme(locator.uri):
            # In a store without versions, another object may have taken the name since.
            data = storage.read_bytes(locator.uri, version=locator.version, size=size if locator.version else 0)
        else:
            # Special files report no size, and some never end.
            data = storage.read_range(locator.uri, 0, max_file_size + 1, version=locator.version)
            if not listed and len(data) > max_file_size:
                raise _too_large(len(data), max_file_size)
    else:
        listed = locator.length
        data = storage.read_range(locator.uri, locator.offset, listed, version=locator.version)
    # The response is complete and the file was complete when it was listed, so another size means that it has changed.
    if listed and len(data) != listed:
        detail = f"{locator.uri} has changed since it was listed: {len(data):,} bytes where there were {listed:,}"
        raise SampleError(Stage.READ, FailureReason.CHANGED, detail)
    return data


def _read_member(locator: File, max_file_size: int) -> bytes:
    """Reads a member of an archive, whose place the listing has found.

    Raises:
      SampleError: the member is too large, or the archive has changed.
      OSError: the archive cannot be read, or the member is damaged.
    """
    place = storage.Place.unpack(locator.version)
    if (largest := max(place.size, place.stored)) > max_file_size:
        raise _too_large(largest, max_file_size)
    return storage.read_bytes(locator.uri, version=locator.version, size=place.size)


def _size(ref: SampleRef, name: str) -> int:
    """Returns the size of an image in bytes; 0 if the listing does not give it."""
    return ref.size if name == ref.first_image else 0


def _read(
    ref: SampleRef, images: Mapping[str, Locator], max_file_size: int, *, is_ahead: bool = False
) -> Fetched | None:
    """Reads images; ahead, returns None if one is large and has no listed size, so that `_finish` reads them later."""
    if ref.failure is not None:
        return _failure_of(ref.failure)
    fetched: dict[str, bytes] = {}
    of_masks = 0
    for name, locator in images.items():
        size, data = _size(ref, name), None
        if is_ahead and isinstance(locator, File) and not size:
            data = _read_head(locator, max_file_size)
            if data is None:
                return None
        else:
            data = read_image(locator, size=size, max_file_size=max_file_size)
        if isinstance(data, SampleError):
            return ref.attribute_error(data, name)
        fetched[name] = data
        of_masks += len(data) if is_mask(name) else 0
        if of_masks > max_file_size:
            return _too_large(of_masks, max_file_size).about("the masks of its objects or classes")
    return fetched


def _read_head(locator: File, max_file_size: int) -> bytes | SampleError | None:
    """Reads the whole file if it is small; otherwise returns None."""
    try:
        data = retry_faults(
            locator.uri, lambda: storage.read_range(locator.uri, 0, _HEAD_BYTES, version=locator.version)
        )
    except BuildError:
        raise
    except Exception as error:
        return _failure(error)
    if len(data) < min(_HEAD_BYTES, max_file_size + 1):
        return data or SampleError(Stage.READ, FailureReason.EMPTY, "the file has no bytes")
    return None


def _failure(error: Exception) -> SampleError:
    if isinstance(error, SampleError):
        return error
    if isinstance(error, storage.MemberError):
        return SampleError(Stage.READ, error.reason, error.detail)
    if isinstance(error, storage.ChangedError):
        return SampleError(Stage.READ, FailureReason.CHANGED, error.strerror or str(error))
    if isinstance(error, OSError):
        return SampleError(Stage.READ, FailureReason.UNREADABLE, error.strerror or str(error))
    return SampleError.internal(Stage.READ, error)


def _failure_of(failure: Sequence[str]) -> SampleError:
    """Returns the error for a sample that the source rejects."""
    reason, detail = failure
    return SampleError(Stage.LIST, FailureReason(reason), detail)


def _finish(waiting: _Waiting, max_file_size: int) -> tuple[RefColumns, int, list[Fetched]]:
    fetched = waiting.future.result()
    if fetched is None:
        fetched = read_images(waiting.ref, max_file_size=max_file_size)
    return waiting.refs, waiting.place, [fetched]


def _too_large(size: int, max_file_size: int) -> SampleError:
    detail = f"the file has {size:,} bytes or more; `max_file_size` allows {max_file_size:,}"
    return SampleError(Stage.READ, FailureReason.TOO_LARGE_FILE, detail)


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
