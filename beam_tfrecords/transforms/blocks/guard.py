"""Guards the conversion of one sample: what it raises is its failure, and its time is limited."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.transforms.processes.isolation import TimeLimit, isolated
from beam_tfrecords.transforms.processes.memory_left import check_memory_left
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.service_faults import describe_fault

Made = TypeVar("Made")
# (reference, bytes of its images by their names)
Convert: TypeAlias = "Callable[[SampleRef, Mapping[str, bytes]], Made]"


@contextlib.contextmanager
def guarded(
    convert: Convert[Made], seconds: float, *, memory: int, is_first: bool, what: str = "the decoder"
) -> Iterator[Convert[Made | SampleError]]:
    """The conversion, which returns why a sample is rejected.

    A decoder that takes too long ends this process at the first attempt, and its child process at the next.

    Args:
      convert: converts one sample.
      seconds: that one sample may take.
      memory: bytes that it may take.
      is_first: whether this is the first attempt.
      what: may not end, or may end its process, for people.
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
    """Converts one sample; whatever `convert` raises is a failure of this sample, and of no other.

    Args:
      convert: converts it.
      ref: the sample.
      images: the bytes of its images by their names; empty for a row without one.
      memory: bytes that its conversion may take.

    Raises:
      BuildError: a service fault, such as no more file handles or memory; no sample caused it.
    """
    try:
        return convert(ref, images)
    except Exception as error:
        return failure_of(error, ref, memory=memory)


def failure_of(error: Exception, ref: SampleRef, *, memory: int) -> SampleError:
    """Why a sample is rejected whose conversion raises an error; arguments and errors as for `convert_sample`."""
    if isinstance(error, SampleError):
        return error
    if isinstance(error, MemoryError):
        check_memory_left(memory)
        detail = f"the conversion needs more memory than there is: {error}".removesuffix(": ")
        return SampleError(Stage.CONVERT, FailureReason.TOO_MUCH_MEMORY, detail)
    if isinstance(error, OSError) and storage.is_service_fault(error):
        raise BuildError(describe_fault(ref.uri or ref.key, error)) from error
    return SampleError.internal(Stage.CONVERT, error)


def _name(ref: SampleRef, _: Mapping[str, bytes]) -> str:
    return ref.uri or ref.key
