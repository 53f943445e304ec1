"""The three ways in which something can be wrong: the request, the build, one sample."""

from __future__ import annotations

import enum


class RequestError(Exception):
    """The request is wrong; nothing has been started (exit code 2).

    The message is one line that names the flag or value at fault, says what was found, what was
    expected and what to do.
    """


class BuildError(Exception):
    """The build itself failed: a broken invariant or storage that does not answer (exit code 1)."""


class Stage(str, enum.Enum):
    """Where on its way a sample was refused."""

    LIST = "list"
    READ = "read"
    DECODE = "decode"
    ENCODE = "encode"
    LABEL = "label"
    EXAMPLE = "example"


class FailureReason(str, enum.Enum):
    """The closed list of reasons for which a sample is refused; the README says what to do about each."""

    UNREADABLE = "unreadable"
    EMPTY = "empty"
    TOO_LARGE_FILE = "too_large_file"
    NOT_AN_IMAGE = "not_an_image"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    TOO_MANY_PIXELS = "too_many_pixels"
    UNSUPPORTED_FORMAT = "unsupported_format"
    UNSUPPORTED_MODE = "unsupported_mode"
    DECODE_TIMEOUT = "decode_timeout"
    DECODER_CRASH = "decoder_crash"
    LABEL_MISSING = "label_missing"
    UNKNOWN_CLASS = "unknown_class"
    UNKNOWN_SPLIT = "unknown_split"
    VALUE_MISSING = "value_missing"
    WRONG_TYPE = "wrong_type"
    OUTSIDE_ROOT = "outside_root"
    DUPLICATE_KEY = "duplicate_key"
    INVALID_ROW = "invalid_row"


class SampleError(Exception):
    """One sample is refused; it is counted and listed, and the build goes on.

    Attributes:
      stage: where on its way the sample was refused.
      reason: one of the closed list.
      detail: what was found, for a person; one line.
    """

    def __init__(self, stage: Stage, reason: FailureReason, detail: str) -> None:
        super().__init__(f"{stage.value}: {reason.value}: {detail}")
        self.stage = stage
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[SampleError], tuple[Stage, FailureReason, str]]:
        return type(self), (self.stage, self.reason, self.detail)
