"""Decides which errors of reading an input file reject samples, and which end the build."""

from __future__ import annotations

import contextlib
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.storage.members import MemberError

# Exceptions of decompressors and parsers; gzip and bzip2 raise OSError without an errno.
_RAISED: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, zipfile.BadZipFile, struct.error)


@contextlib.contextmanager
def reading(
    describe: Callable[[Exception], SampleError] | None = None, *, raised: tuple[type[Exception], ...] = _RAISED
) -> Iterator[None]:
    """Turns exceptions of reading a damaged or unreadable file into `SampleError`.

    Lets through service faults, `ChangedError` and out-of-memory errors, because the file did not cause them.

    Args:
      describe: maps the exception to the error; None for an error with the exception's text.
      raised: exceptions that readers of the format raise.
    """
    try:
        yield
    except raised as error:
        reject(error, describe or damaged)
        raise


def parsing(describe: Callable[[Exception], SampleError] | None = None) -> contextlib.AbstractContextManager[None]:
    """Guards a third-party parser, which may raise any exception for a malformed file."""
    return reading(describe, raised=(Exception,))


def reject(error: Exception, describe: Callable[[Exception], SampleError]) -> None:
    """Raises the `SampleError` for an exception of reading a file; returns if the file did not cause it.

    Args:
      error: exception that the reader raised.
    """
    if isinstance(error, MemberError):
        raise SampleError(Stage.LIST, error.reason, error.detail) from error
    if is_damage(error):
        raise describe(error) from error
    if isinstance(error, storage.ChangedError) or not isinstance(error, OSError):
        return
    if not storage.is_service_fault(error):
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, error.strerror or str(error)) from error


def is_damage(error: Exception) -> bool:
    """Whether the content of a file caused an error, and not the access to it."""
    if isinstance(error, OSError):
        # Decompressors and Arrow raise OSError without an errno.
        return error.errno is None and not isinstance(error, storage.StorageError | TimeoutError | ConnectionError)
    return not isinstance(error, SampleError | RequestError | BuildError | MemoryError)


def damaged(error: Exception) -> SampleError:
    """Returns the error of a damaged file, as one line."""
    return SampleError(Stage.LIST, FailureReason.CORRUPT, " ".join(str(error).split())[:500])


@contextlib.contextmanager
def unchanged(path: str, version: str) -> Iterator[None]:
    """Checks at the end of the block, even after an exception, that a file is still the listed version.

    Does not check a file that a caller stops reading before its end.

    Raises:
      BuildError: the file was replaced in the meantime.
    """
    is_abandoned = False
    try:
        try:
            yield
        except GeneratorExit:
            is_abandoned = True
            raise
        finally:
            # After a read error too: the replacement explains the error.
            if version and not is_abandoned:
                storage.open_read(path, version=version).close()
    except storage.ChangedError as error:
        raise BuildError(
            f"{path} has changed while it was read; run the same command again when it is complete"
        ) from error
