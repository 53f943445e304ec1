"""What tests assert of a refusal: its code, its settings, and values in its message.

The sentences themselves are in `data/refusals.json`: `tests/core/refusal_snapshot.py`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator

import pytest

from beam_tfrecords import RequestError

# Refusals that the running test has asserted.
asserted: list[RequestError] = []


class Refusal:
    """A refusal that a test expects.

    Attributes:
      code: that it has.
      settings: that it is about, in any order.
      says: values in its message; not the sentence around them.
    """

    def __init__(self, code: str, *settings: str, says: Collection[str] = ()) -> None:
        self.code, self.settings, self.says = code, sorted(settings), says

    def check(self, error: RequestError) -> None:
        """Asserts that this is the refusal."""
        __tracebackhide__ = True
        asserted.append(error)
        assert (error.code, sorted(error.settings)) == (self.code, self.settings), error
        # Readings have values as in Python; `says` may leave quotes and brackets out.
        plain = re.sub(r"['\[\]]", "", str(error).replace("\\\\", "\\"))
        missing = [
            value for value in self.says if value not in str(error) and re.sub(r"['\[\]]", "", value) not in plain
        ]
        assert not missing, f"{missing} not in: {error}"

    def __repr__(self) -> str:
        return self.code


def expect(refusal: str | Refusal, *settings: str, says: Collection[str] = ()) -> Refusal:
    """Returns the refusal, or makes the one of a code."""
    return refusal if isinstance(refusal, Refusal) else Refusal(refusal, *settings, says=says)


@contextlib.contextmanager
def refuses(
    refusal: str | Refusal, *settings: str, says: Collection[str] = ()
) -> Iterator[pytest.ExceptionInfo[RequestError]]:
    """Asserts that a block raises this refusal; takes what `Refusal` takes, or one."""
    with pytest.raises(RequestError) as refused:
        yield refused
    expect(refusal, *settings, says=says).check(refused.value)
