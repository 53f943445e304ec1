"""Guards the conversion of one sample: turns exceptions into failures of the sample, and limits the time."""

from __future__ import annotations

import contextlib
import functools
import mmap
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.dataset.published_paths import UNCHANGED, PublishedPaths
from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.transforms.processes.isolation import TimeLimit, isolated
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.service_faults import describe_fault

Made = TypeVar("Made")
# MAP_NORESERVE, which Python names only since 3.13. Without it, Linux refuses to map more memory than the machine has,
# although most images need little (mmap(2)).
_NORESERVE = 0x4000 if sys.platform == "linux" else 0
# Takes a reference and its images: image name -> bytes.
Convert: TypeAlias = "Callable[[SampleRef, Mapping[str, bytes]], Made]"


@contextlib.contextmanager
def guarded(
    convert: Convert[Made], seconds: float, *, memory: int, is_first: bool, what: str = "the decoder"
) -> Iterator[Convert[Made | SampleError]]:
    """Yields a conversion that returns an error for a rejected sample.

    A decoder that exceeds the time limit ends this process in the first attempt, and its child process in later ones.

    Args:
      convert: converts one sample.
      seconds: time limit for one sample.
      memory: bytes of memory that one sample may take.
      is_first: whether this is the first attempt.
      what: name, for messages, of the code that may hang or crash.
    """
    attempt = functools.partial(convert_sample, convert, memory=memory)
    if not is_first:
        with isolated(attempt, seconds, name=_name, what=what) as call:
            yield call
        return
    limit = TimeLimit(seconds)

    def convert_in_time(ref: SampleRef, images: Mapping[str, bytes]) -> Made | SampleError:
        with limit:
            return attempt(ref, images)

    yield convert_in_time


def convert_sample(
    convert: Convert[Made], ref: SampleRef, images: Mapping[str, bytes], *, memory: int = 0
) -> Made | SampleError:
    """Converts one sample; an exception in `convert` becomes a failure of this sample only.

    Args:
      convert: converts the sample.
      ref: the sample.
      images: image name -> bytes; empty for a row without images.
      memory: bytes of memory that the conversion may take.

    Raises:
      BuildError: a service fault that no sample caused, such as a lack of file handles or memory.
    """
    try:
        return convert(ref, images)
    except Exception as error:
        return failure_of(error, ref, memory=memory)


def failure_of(error: Exception, ref: SampleRef, *, memory: int) -> SampleError:
    """Returns the failure of a sample whose conversion raised an error; `memory` and errors as in `convert_sample`."""
    if isinstance(error, SampleError):
        return error
    if isinstance(error, MemoryError):
        check_memory_left(memory)
        detail = f"the conversion needs more memory than there is: {error}".removesuffix(": ")
        return SampleError(Stage.CONVERT, FailureReason.TOO_MUCH_MEMORY, detail)
    if isinstance(error, OSError) and storage.is_service_fault(error):
        raise BuildError(describe_fault(ref.uri or ref.key, error)) from error
    return SampleError.internal(Stage.CONVERT, error)


def describe_failure(ref: SampleRef, error: SampleError, paths: PublishedPaths = UNCHANGED) -> dict[str, Any]:
    """Returns a failure as the values of a line of `failures.jsonl`, with published paths."""
    line: dict[str, Any] = {
        "key": ref.key,
        "uri": ref.uri and paths.publish(ref.uri),
        "stage": error.stage.value,
        "reason": error.reason.value,
        "detail": paths.publish_text(error.detail),
    }
    if error.traceback:
        line["traceback"] = paths.publish_traceback(error.traceback)
    return line


def _name(ref: SampleRef, _: Mapping[str, bytes]) -> str:
    return ref.uri or ref.key


def check_memory_left(needed: int) -> None:
    """Checks that memory can be allocated, without using it.

    Args:
      needed: bytes.

    Raises:
      BuildError: this process may not allocate that much memory.
    """
    if not needed:
        return
    try:
        # Larger values mean no limit, but address spaces are limited.
        mmap.mmap(-1, min(needed, 1 << 40), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE).close()
    except OSError as error:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        why = "" if limit == resource.RLIM_INFINITY else f"; `ulimit -v` allows {limit >> 20:,} MiB in all"
        raise BuildError(
            f"a worker process cannot have the {needed >> 20:,} MiB of memory that an image may take: {error.strerror}"
            f"{why}; allow more, or lower `max_image_memory`"
        ) from error
