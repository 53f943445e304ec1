"""Distinguishes service faults from faults of a file."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeGuard

from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.entries import ServiceFaultError

# Errors of disks, mounts, file handles, memory and networks.
_ERRNOS = frozenset(
    {
        errno.EIO,
        errno.ESTALE,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
        errno.ECONNRESET,
        errno.ECONNREFUSED,
        errno.ECONNABORTED,
        errno.EPIPE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EAGAIN,
        errno.ENODEV,
        errno.ENXIO,
        # Exists only on Linux.
        getattr(errno, "EREMOTEIO", errno.EIO),
    }
)
# Seconds before an incomplete range is read again.
_PAUSES = (0.05, 0.2, 0.8)


def is_service_fault(error: OSError) -> bool:
    """Whether a disk, a mount, the machine, the network or the store is at fault, not the file."""
    return isinstance(error, ServiceFaultError | TimeoutError | ConnectionError) or error.errno in _ERRNOS


def is_unanswered(error: BaseException | None) -> TypeGuard[OSError]:
    """Whether an error leaves the state of the file open: a service fault, or a missing permission."""
    return isinstance(error, OSError) and (is_service_fault(error) or isinstance(error, PermissionError))


def is_fault_status(status: object) -> bool:
    """Whether an HTTP status is a service fault: 404 is not, a denied permission is."""
    return isinstance(status, int) and (status in (401, 403, 408, 429) or status >= 500)


def read_complete(path: str, read: Callable[[], tuple[bytes, int]]) -> bytes:
    """Repeats an incomplete read a few times.

    Args:
      path: the file, for the message.
      read: returns the bytes, and the number of bytes expected.

    Raises:
      BuildError: every attempt was incomplete.
    """
    for pause in (*_PAUSES, None):
        data, size = read()
        if len(data) >= size:
            return data
        if pause is not None:
            time.sleep(pause)
    raise BuildError(f"{path}: only {len(data)} of {size} bytes can be read, in {len(_PAUSES) + 1} attempts")
