"""The kinds of errors: a wrong request, a failed build, a violated limit, a rejected sample."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import itertools
import re
import threading
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.escaping import escape

# The end of the meaning of a reading without labels.
_UNLABELLED = "without labels"


@dataclasses.dataclass(frozen=True)
class Reading:
    """What an input may be taken to mean, as the settings that say so; a refusal offers it as a command.

    Attributes:
      meaning: contents of the dataset that the build would then write.
      settings: name -> value of the settings to add to the request; None removes a setting.
      gives: what it uses of the input and what it leaves, found by trying it; "" if that is unknown.
    """

    meaning: str
    settings: Mapping[str, Any]
    gives: str = ""

    def then(self, other: Reading) -> Reading:
        """Returns both, one after the other; of what the other replaces, the meaning says nothing."""
        is_replaced = self.settings.keys() <= other.settings.keys()
        said = [one for one in ("" if is_replaced else self.meaning, other.meaning) if one]
        if len(said) > 1 and any(one.endswith(f", {_UNLABELLED}") for one in said):
            # The other one says which images.
            said = [*dict.fromkeys(one.removesuffix(f", {_UNLABELLED}") for one in said)]
            said = [*(one for one in said if one != "all images"), _UNLABELLED]
        return Reading(", ".join(said), {**self.settings, **other.settings})

    def __str__(self) -> str:
        written = (f"`{name}={value!r}`" for name, value in self.settings.items() if value is not None)
        return f"{self.meaning}: {' '.join(written)}"


class _ShownError(Exception):
    """An error whose message says all; a notebook shows the message without the calls inside this package."""

    def _render_traceback_(self) -> list[str]:
        """Returns what IPython shows in place of a traceback: the message, and the user's line that led to it."""
        first, *others = self._shown_lines()
        calls = itertools.takewhile(_is_users, traceback.walk_tb(self.__traceback__))
        users = traceback.StackSummary.extract(calls)
        called = [f"  line {users[-1].lineno}: {users[-1].line}"] if users else []
        return [f"{type(self).__name__}: {first}", *others, *called]

    def _shown_lines(self) -> list[str]:
        return [str(self)]


def _is_users(call: tuple[types.FrameType, int]) -> bool:
    return not call[0].f_globals.get("__name__", "").startswith(f"{__package__}.")


# A setting in a message: `name`, `name=value`, or the flag --name that the message begins with.
_SETTING = re.compile(r"`([a-z][a-z0-9_]*)(?:=[^`]*)?`|\A--([a-z][a-z0-9_]*)")


class RequestError(_ShownError):
    """The request is wrong; nothing has been started (exit code 2).

    The message is one line. It names the setting at fault, and says what was found, what was expected and what to do.
    It quotes settings as `name` or `name=value`; the command line shows them as flags. The wording may change in any
    version, so programs decide by `code` and `settings`:

        >>> from beam_tfrecords import RequestError, open_dataset
        >>> try:
        ...     open_dataset("missing/")
        ... except RequestError as error:
        ...     print(error.code)
        no_dataset

    Attributes:
      message: the message without the suggestions.
      code: the fault, such as "unknown_column"; docs/refusals.md lists all. A code keeps its meaning in later versions.
      settings: names of the settings that the message quotes, in its order.
      suggestions: what the input may be taken to mean; the command line shows each as a complete command.
      traceback: traceback of a user's function that failed; otherwise "".
    """

    def __init__(self, message: str, suggestions: Sequence[Reading] = (), *, code: str, traceback: str = "") -> None:
        whole = f"{message}; for {'; or for '.join(map(str, suggestions))}" if suggestions else message
        super().__init__(escape(whole))
        self.message = escape(message)
        self.code = code
        self.settings = tuple(dict.fromkeys(quoted or flag for quoted, flag in _SETTING.findall(self.message)))
        self.suggestions = tuple(suggestions)
        self.traceback = traceback

    def _shown_lines(self) -> list[str]:
        suggested = [f"  for {reading}" for reading in self.suggestions]
        return [self.message, *suggested, *map(escape, self.traceback.splitlines())]

    def __reduce__(self) -> tuple[Any, ...]:
        make = functools.partial(type(self), code=self.code, traceback=self.traceback)
        return make, (self.message, self.suggestions)


class BuildError(_ShownError):
    """The build failed: an invariant is broken, or storage does not answer (exit code 1).

    Attributes:
      code: the kind of fault: "failed", "locked", "damaged", or the setting of the limit that is exceeded.
      failures: reason -> number of rejected samples, if they prevent publishing.
      folder: folder with the lists of failures, duplicates and changes, or None.
      retryable: whether the same call can succeed later; a build then resumes.
    """

    code = "failed"
    retryable = True

    def __init__(
        self, message: str, *, code: str = "", failures: Mapping[str, int] | None = None, folder: str | None = None
    ) -> None:
        super().__init__(escape(message))
        self.code = code or self.code
        self.failures: dict[str, int] = dict(failures or {})
        self.folder = folder


# A line such as `KeyError: 'image'` or `java.util.concurrent.TimeoutException`.
_TYPED = re.compile(r"(?:[\w$]+[.$])*((?:[A-Z]\w*?)?(?:Error|Exception))(?:: (.*))?", re.DOTALL)


def describe_exception(error: BaseException) -> str:
    """Describes an exception of a library in one line, without the name of its type and the number of the error."""
    text = re.sub(r"\A\[Errno \d+\] ", "", " ".join(str(error).split()))
    return _describe_typed(type(error).__name__, text)


def without_type(line: str) -> str:
    """Returns the last line of a stack trace without the name of the exception's type."""
    found = _TYPED.fullmatch(line)
    return _describe_typed(found[1], found[2] or "") if found else line


def _describe_typed(name: str, text: str) -> str:
    """Returns the text of an exception; puts the words of the type's name before a text of a single word."""
    text = without_type(text)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", re.sub(r"(Error|Exception)$", "", name)).lower()
    return text if " " in text else f"{words} {text}".strip() or "unknown error"


PYTHON_ENDS = (
    "Python is exiting and cannot start threads; call this before the main thread ends, not in a function that "
    "atexit calls"
)


@contextlib.contextmanager
def naming_end() -> Iterator[None]:
    """Explains the error of a block that fails because Python starts no threads after its main thread has ended.

    Raises:
      BuildError: the block failed for this reason.
    """
    try:
        yield
    except (RuntimeError, BuildError) as error:
        if threading.main_thread().is_alive() or "shutdown" not in str(error):
            raise
        raise BuildError(PYTHON_ENDS) from error


class LimitError(BuildError):
    """A limit is exceeded, so nothing is published (exit code 3). The message is one line that says what to do."""

    code = "limit"
    retryable = False


class OutputLockedError(BuildError):
    """Another build holds the output, so nothing has been started (exit code 4). Try again after its end."""

    code = "locked"


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
    """The closed list of reasons to reject a sample; docs/failures.md says what to do about each."""

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
    """A sample is rejected; the build counts it, lists it and continues.

    Attributes:
      detail: what was found, for people to read; one line.
      traceback: traceback of an unexpected exception, or None.
    """

    def __init__(self, stage: Stage, reason: FailureReason, detail: str, traceback: str | None = None) -> None:
        self.stage = stage
        self.reason = reason
        self.detail = escape(detail)
        super().__init__(f"{stage.value}: {reason.value}: {self.detail}")
        self.traceback = traceback

    @classmethod
    def internal(cls, stage: Stage, error: Exception) -> SampleError:
        """Returns the failure of a sample for which our own code raised an unexpected exception."""
        trace = "".join(traceback.format_exception(error))
        return cls(stage, FailureReason.INTERNAL_ERROR, describe_exception(error)[:500], trace)

    def about(self, what: str) -> SampleError:
        """Returns the same failure for a part of the sample, such as the image's mask."""
        return SampleError(self.stage, self.reason, f"{what}: {self.detail}", self.traceback)

    def __reduce__(self) -> tuple[type[SampleError], tuple[Stage, FailureReason, str, str | None]]:
        return type(self), (self.stage, self.reason, self.detail, self.traceback)
