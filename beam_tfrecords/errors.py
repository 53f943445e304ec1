"""The kinds of errors: a wrong request, a failed build, one that a limit stopped, a rejected sample."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.escaping import escape


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """One way to make a request clear.

    Attributes:
      meaning: what is built then.
      settings: name -> value of the settings that say so; the others of the request stay. None takes one back.
      before: commands of a shell that make its input.
    """

    meaning: str
    settings: Mapping[str, Any]
    before: Sequence[str] = ()

    def __str__(self) -> str:
        written = (f"`{name}={_write(value)}`" for name, value in self.settings.items() if value is not None)
        after = f", after {'; '.join(self.before)}" if self.before else ""
        return f"{self.meaning}: {' '.join(written)}{after}"


def _write(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


class RequestError(Exception):
    """The request is wrong; nothing has been started (exit code 2).

    The message is one line that names the setting at fault, says what was found, what was expected and what
    to do. Settings are quoted as `name` or `name=value`; the command line shows them as flags.

    Attributes:
      message: without the suggestions.
      suggestions: what to say instead; the command line shows each as a complete command.
      traceback: of a function of the user that fails; "" without one.
    """

    def __init__(self, message: str, suggestions: Sequence[Suggestion] = (), *, traceback: str = "") -> None:
        whole = f"{message}; say {'; or '.join(map(str, suggestions))}" if suggestions else message
        super().__init__(escape(whole))
        self.message = escape(message)
        self.suggestions = tuple(suggestions)
        self.traceback = traceback


class BuildError(Exception):
    """The build failed: an invariant is broken, or storage does not answer (exit code 1)."""

    def __init__(self, message: str) -> None:
        super().__init__(escape(message))


PYTHON_ENDS = (
    "Python is exiting and starts no threads any more; call this before the main thread ends, not in a function that "
    "`atexit` calls"
)


@contextlib.contextmanager
def naming_end() -> Iterator[None]:
    """Says what is wrong if the block fails because Python starts no threads when its main thread has ended.

    Raises:
      BuildError: that is why it has failed.
    """
    try:
        yield
    except (RuntimeError, BuildError) as error:
        if threading.main_thread().is_alive() or "shutdown" not in str(error):
            raise
        raise BuildError(PYTHON_ENDS) from error


class LimitError(BuildError):
    """A limit said no: nothing is published (exit code 3). The message is one line that says what to do."""


class Stage(str, enum.Enum):
    """The step that rejected a sample."""

    LIST = "list"
    READ = "read"
    DECODE = "decode"
    ENCODE = "encode"
    LABEL = "label"
    EXAMPLE = "example"
    CONVERT = "convert"
    MAP = "map"


class FailureReason(str, enum.Enum):
    """The closed list of reasons for which a sample is rejected; docs/failures.md says what to do about each."""

    UNREADABLE = "unreadable"
    CHANGED = "changed"
    EMPTY = "empty"
    TOO_LARGE_FILE = "too_large_file"
    NOT_AN_IMAGE = "not_an_image"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    TOO_MANY_PIXELS = "too_many_pixels"
    TOO_MUCH_MEMORY = "too_much_memory"
    UNSUPPORTED_FORMAT = "unsupported_format"
    UNSUPPORTED_MODE = "unsupported_mode"
    DECODE_TIMEOUT = "decode_timeout"
    DECODER_CRASH = "decoder_crash"
    LABEL_MISSING = "label_missing"
    UNKNOWN_CLASS = "unknown_class"
    UNKNOWN_SPLIT = "unknown_split"
    VALUE_MISSING = "value_missing"
    WRONG_TYPE = "wrong_type"
    INVALID_BOX = "invalid_box"
    INVALID_MASK = "invalid_mask"
    MASK_MISSING = "mask_missing"
    OUTSIDE_ROOT = "outside_root"
    DUPLICATE_KEY = "duplicate_key"
    CONFLICTING_ROWS = "conflicting_rows"
    INVALID_ROW = "invalid_row"
    MAP_ERROR = "map_error"
    INTERNAL_ERROR = "internal_error"


# Failures that may not be the sample's fault. Every new run and every new version tries these samples again.
TRIED_AGAIN = frozenset(
    {
        FailureReason.UNREADABLE,
        FailureReason.CHANGED,
        FailureReason.DECODE_TIMEOUT,
        FailureReason.DECODER_CRASH,
        FailureReason.INTERNAL_ERROR,
    }
)


class SampleError(Exception):
    """One sample is rejected; it is counted and listed, and the build continues.

    Attributes:
      detail: what was found, for a person; one line.
      traceback: of an exception that nobody expected, or None.
    """

    def __init__(self, stage: Stage, reason: FailureReason, detail: str, traceback: str | None = None) -> None:
        self.stage = stage
        self.reason = reason
        self.detail = escape(detail)
        super().__init__(f"{stage.value}: {reason.value}: {self.detail}")
        self.traceback = traceback

    @classmethod
    def internal(cls, stage: Stage, error: Exception) -> SampleError:
        """The failure of a sample that made our own code raise an exception that nobody expected."""
        detail = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        return cls(stage, FailureReason.INTERNAL_ERROR, detail, "".join(traceback.format_exception(error)))

    def about(self, what: str) -> SampleError:
        """The same failure, of something that belongs to the image, such as its mask."""
        return SampleError(self.stage, self.reason, f"{what}: {self.detail}", self.traceback)

    def __reduce__(self) -> tuple[type[SampleError], tuple[Stage, FailureReason, str, str | None]]:
        return type(self), (self.stage, self.reason, self.detail, self.traceback)
