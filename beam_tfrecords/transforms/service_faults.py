"""Service faults: what a machine, disk, network or store did is retried, then ends the build, and rejects no sample."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError

# Seconds before each new attempt.
PAUSES = (0.5, 1.0, 2.0, 4.0)

Result = TypeVar("Result")


def retry_faults(name: str, action: Callable[[], Result]) -> Result:
    """The result of an action that reads a file; a service fault is retried a few times.

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
    """One line about a service fault: the file, the fault, and what to do."""
    fault = error.strerror or str(error).removeprefix(f"{name}: ")
    return f"{error.filename or name} cannot be read: {fault}; the same command resumes once it can"
