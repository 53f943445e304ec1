"""Reads the images of a block: one by one from a disk, several at once from a store that answers slowly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from transforms import storage
from transforms.errors import FailureReason, SampleError, Stage
from transforms.values import SampleRef

# An object store takes some 50 ms for an image, whatever its size; this many are asked for at once.
_THREADS = 16
# What may lie read and not yet converted: a worker's memory is bounded by it.
_AHEAD_BYTES = 32 << 20
# A manifest does not tell the sizes of remote files.
_UNKNOWN_BYTES = 1 << 20


def fetch(
    refs: Iterable[SampleRef], *, read_images: bool, max_file_size: int
) -> Iterator[tuple[SampleRef, bytes | SampleError | None]]:
    """The refs in their order, each with its image's bytes (None without an image), or why they can't be had.

    Args:
      refs: samples.
      read_images: False if the layout needs none.
      max_file_size: bytes of the largest file that is read.
    """
    waiting: deque[tuple[SampleRef, Future[bytes | SampleError]]] = deque()
    ahead = 0
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="fetch") as threads:
        for ref in refs:
            uri = ref.uri if read_images and ref.failure is None else None
            if uri is None or not storage.has_scheme(uri):
                while waiting:
                    yield _next(waiting)
                data = None if uri is None else read_image(uri, size=ref.size, max_file_size=max_file_size)
                yield ref, _refusal(ref) or data
                continue
            size = ref.size or _UNKNOWN_BYTES
            while waiting and (ahead + size > _AHEAD_BYTES or len(waiting) >= 2 * _THREADS):
                ahead -= waiting[0][0].size or _UNKNOWN_BYTES
                yield _next(waiting)
            waiting.append((ref, threads.submit(read_image, uri, size=ref.size, max_file_size=max_file_size)))
            ahead += size
        while waiting:
            yield _next(waiting)


def read_image(uri: str, *, size: int, max_file_size: int) -> bytes | SampleError:
    """The bytes of one image, or why they can't be had.

    Args:
      uri: the file.
      size: its bytes, or 0 if they are not known.
      max_file_size: bytes of the largest file that is read.
    """
    try:
        size = size or storage.stat(uri).size
        if size > max_file_size:
            detail = f"the file has {size:,} bytes; --max_file_size allows {max_file_size:,}"
            return SampleError(Stage.READ, FailureReason.TOO_LARGE_FILE, detail)
        data = storage.read_bytes(uri)
    except OSError as error:
        return SampleError(Stage.READ, FailureReason.UNREADABLE, error.strerror or str(error))
    return data or SampleError(Stage.READ, FailureReason.EMPTY, "the file has no bytes")


def _refusal(ref: SampleRef) -> SampleError | None:
    if ref.failure is None:
        return None
    reason, detail = ref.failure
    return SampleError(Stage.LIST, FailureReason(reason), detail)


def _next(waiting: deque[tuple[SampleRef, Future[bytes | SampleError]]]) -> tuple[SampleRef, bytes | SampleError]:
    ref, future = waiting.popleft()
    return ref, future.result()
