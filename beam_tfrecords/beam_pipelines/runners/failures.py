"""Reduces the failures that runners report, Java and Python stack traces, to one line."""

from __future__ import annotations

import re

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.limits import describe_shortage
from beam_tfrecords.errors import BuildError, describe_exception, without_type
from beam_tfrecords.storage import StorageError

_TRACEBACK = "Traceback (most recent call last):"
# Error types of the build and of its stores.
_KINDS = "BuildError|AccessDeniedError|MissingBucketError|ServiceFaultError|StorageError"
_BUILD_ERROR = re.compile(
    rf"^(?:beam_tfrecords\.[a-z_.]+\.)?(?:{_KINDS}): (.*?)(?: \[while running .*\])?$", re.MULTILINE
)
_OS_ERROR = re.compile(r"\w+Error: \[Errno (\d+)\] (.*)")
_WHILE_RUNNING = re.compile(r" \[while running .*\]")
_JAVA_FRAME = re.compile(r"^\s+at ", re.MULTILINE)
_JAVA_ERROR = re.compile(r"^(?:Caused by: )?((?:[\w$]+\.)+[\w$]+(?:: .*)?)$", re.MULTILINE)


class JobFailedError(BuildError):
    """A job failed for a reason outside the build, such as a lost worker."""


def find_build_error(text: str) -> str | None:
    """Returns the message of a `BuildError` in a runner's error text; None if there is none."""
    found = _BUILD_ERROR.search(text)
    return found[1] if found else None


def describe_trace(text: str, *, more: str) -> str:
    """Describes a stack trace in one line; `more` says where to find details."""
    message = find_build_error(text)
    if message:
        return message
    if _JAVA_FRAME.search(text) and _TRACEBACK not in text:
        lines = _JAVA_ERROR.findall(text) or text.splitlines()[:1]
    else:
        python = text.split(_TRACEBACK, 1)[-1]
        lines = re.split(r"\n\s+at |\nCaused by: ", _WHILE_RUNNING.sub("", python))[0].splitlines()
    lines = [line.strip() for line in lines if line.strip()] or ["no reason is given"]
    fault = _OS_ERROR.fullmatch(lines[-1])
    if fault and storage.is_service_fault(OSError(int(fault[1]), "")):
        return f"{fault[2]}; the same command resumes once this is fixed"
    return f"{without_type(lines[-1])} ({more})"


def describe_error(error: Exception) -> str:
    """Describes a failed pipeline in one line; runners report a worker's exception as text with its traceback."""
    text = str(error)
    if isinstance(error, BuildError | StorageError):  # The local runner keeps the type.
        return _WHILE_RUNNING.sub("", text)
    shortage = describe_shortage(error)
    if shortage:
        return shortage
    if "\n" not in text.strip() and not isinstance(error, RuntimeError):  # There is no traceback with the type.
        text = describe_exception(error)
    return describe_trace(text, more="`verbose` shows more")
