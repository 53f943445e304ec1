"""Service faults of machines, disks, networks and stores: retried, then they end the build; they reject no sample."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, RequestError

# Seconds before each retry.
PAUSES = (0.5, 1.0, 2.0, 4.0)

Result = TypeVar("Result")


def retry_faults(name: str, action: Callable[[], Result]) -> Result:
    """Returns the result of an action that reads a file; retries service faults a few times.

    Raises:
      BuildError: the fault persists.
    """
    pauses = iter(PAUSES)
    while True:
        try:
            return action()
        except OSError as error:
            if not storage.is_service_fault(error):
                raise
            pause = next(pauses, None)
            if pause is None:
                raise BuildError(describe_fault(name, error)) from error
        time.sleep(pause)


def describe_fault(name: str, error: OSError) -> str:
    """Describes a service fault in one line: the file, the fault, and how to continue."""
    fault = error.strerror or str(error).removeprefix(f"{name}: ")
    return f"{error.filename or name} cannot be read: {fault}; once this is fixed, the same command resumes"


@contextlib.contextmanager
def suppress_refusals() -> Iterator[None]:
    """Suppresses errors of trying to open a file in some format, except when the storage did not answer."""
    try:
        yield
    except (OSError, RequestError, BuildError, ValueError) as error:
        if storage.is_unanswered(error) or storage.is_unanswered(error.__cause__):
            raise
