"""One test that tries a rule on many cases, and names every case that fails with its reason.

pytest takes 5 ms of processor time for each parametrized test in three processes, which is more than most images take.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import pytest

Key = TypeVar("Key")
Case = Mapping[str, Any]
# One more value for the same names, or all of them when the test runs: `corpus()` takes a second.
Values = Iterable[Any] | Callable[[], Iterable[Any]]


def each(names: str, values: Values, *, ids: Iterable[str] | Callable[[Any], str] | None = None) -> Callable[..., Any]:
    """Runs a test with each value in turn, in the place of `pytest.mark.parametrize`.

    Several of them run all combinations. `tmp_path`
    and `monkeypatch` are new for each case.

    Args:
      names: parameters, with commas between them.
      values: one for each case, or a tuple of them; or a function that returns them.
      ids: what to call each value; by default the value itself.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        loop = getattr(test, "loop", None) or Loop(test)
        return loop.added(tuple(names.replace(" ", "").split(",")), values, ids).as_test(test)

    return decorate


class Loop:
    """A test and the values of its parameters."""

    def __init__(self, test: Callable[..., None], parameters: tuple[tuple[Any, ...], ...] = ()) -> None:
        self.test, self._parameters = test, parameters

    def added(self, names: tuple[str, ...], values: Values, ids: Any) -> Loop:
        return Loop(self.test, ((names, values, ids), *self._parameters))

    def as_test(self, marked: Callable[..., None]) -> Callable[..., None]:
        """Returns the function that pytest calls."""
        signature = inspect.signature(self.test)
        own = {name for names, _, _ in self._parameters for name in names}
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in own]
        wants_request = "request" in signature.parameters

        @functools.wraps(self.test)
        def run(request: pytest.FixtureRequest, **given: Any) -> None:
            if wants_request:
                given["request"] = request
            self._run(given)

        run.__dict__.update(marked.__dict__)
        run.__wrapped__ = self.test  # and not a loop over some of the parameters
        request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY)
        kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in fixtures]
        run.__signature__ = signature.replace(parameters=kept if wants_request else [*kept, request])
        run.loop = self
        return run

    def cases(self) -> dict[str, Case]:
        """Returns all combinations, by their names."""
        lists = [list(_named(names, values, ids)) for names, values, ids in self._parameters]
        found: dict[str, Case] = {}
        for some in itertools.product(*lists):
            name = "-".join(name for name, _ in some)
            found[name if name not in found else f"{name} ({len(found)})"] = {
                key: value for _, case in some for key, value in case.items()
            }
        return found

    def _run(self, given: dict[str, Any]) -> None:
        __tracebackhide__ = True
        cases = self.cases()
        failed: dict[str, BaseException] = {}
        for number, (name, case) in enumerate(cases.items()):
            try:
                with _own_fixtures(given, str(number)) as own:
                    self.test(**own, **case)
            except (Exception, pytest.fail.Exception) as error:
                failed[name] = error
        if failed:
            lines = [f"{name}: {_reason(error)}" for name, error in failed.items()]
            text = "\n  ".join([f"{len(failed)} of {len(cases)} cases fail:", *lines])
            raise AssertionError(text) from next(iter(failed.values()))


@contextlib.contextmanager
def _own_fixtures(given: Mapping[str, Any], folder: str) -> Iterator[dict[str, Any]]:
    """Yields the fixtures of one case: a folder of its own, and patches that end with it."""
    own = dict(given)
    if "tmp_path" in own:
        own["tmp_path"] = given["tmp_path"] / folder
        own["tmp_path"].mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" in own:
            own["monkeypatch"] = patch
        yield own


def _named(names: tuple[str, ...], values: Values, ids: Any) -> Iterator[tuple[str, Case]]:
    values = list(values() if callable(values) and not isinstance(values, type) else values)
    if ids is not None and not callable(ids):
        ids = list(ids)
    for number, value in enumerate(values):
        parts = (value,) if len(names) == 1 else value
        name = "-".join(map(_shown, parts)) if ids is None else ids(value) if callable(ids) else ids[number]
        yield name, dict(zip(names, parts, strict=True))


def _shown(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Path):
        return value.stem
    text = value.__name__ if inspect.isfunction(value) else str(value) if isinstance(value, str) else repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"
