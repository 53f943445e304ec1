"""Prepares this process for a build, and explains errors that the machine causes."""

from __future__ import annotations

import errno
import resource
import tempfile
import threading

from beam_tfrecords import storage
from beam_tfrecords.errors import PYTHON_ENDS, RequestError
from beam_tfrecords.transforms.processes.worker import usable_cores

# Maximum number of files that a build opens, and each of its workers in addition, with a reserve.
_FILES, _FILES_PER_WORKER = 64, 16
_SHORTAGES = {
    errno.EMFILE: "allow more open files, see `ulimit -n`",
    errno.ENFILE: "the system has too many open files; end other programs",
    errno.ENOMEM: "allow more memory, see `ulimit -v`",
    errno.EAGAIN: "allow more processes, see `ulimit -u`",
    errno.EFBIG: "allow larger files, see `ulimit -f`",
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room on the disk",
    errno.EROFS: "mount it for writing, or set TMPDIR to another folder",
}


def prepare_process() -> None:
    """Allows this process and its children to open as many files as a build needs, if the system lets it.

    Raises:
      RequestError: there is no temporary folder, or Python is exiting.
    """
    if not threading.main_thread().is_alive():
        raise RequestError(PYTHON_ENDS, code="python_is_exiting")
    needed = _FILES + _FILES_PER_WORKER * usable_cores()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (needed if hard == resource.RLIM_INFINITY else min(needed, hard), hard)
        )
    try:
        tempfile.gettempdir()
    except OSError as error:
        raise RequestError(
            f"{error.strerror or error}; set TMPDIR to a folder that can be written", code="no_temporary_folder"
        ) from error


def describe_shortage(error: Exception) -> str | None:
    """Explains an error that the machine causes: the missing resource and the remedy; returns None for other errors."""
    if isinstance(error, OSError):
        remedy = _SHORTAGES.get(error.errno or 0)
        if remedy is None and error.filename and storage.is_unanswered(error):
            remedy = "the same command goes on once this is fixed"
        return remedy and f"{error.filename or 'this process'}: {error.strerror}; {remedy}"
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return f"out of memory; {_SHORTAGES[errno.ENOMEM]}"
    return None
