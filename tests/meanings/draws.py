"""All forms of inputs, and the outcomes of many."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import unittest.mock
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.meanings.folders import FOLDER_FORMS, draw_folder
from tests.meanings.meaning import Meaning
from tests.meanings.oracle import judge
from tests.meanings.report import Found
from tests.meanings.rows import ROW_FORMS, draw_rows
from tests.meanings.written import WRITTEN_FORMS, draw_written

FORMS: Mapping[str, Callable[[random.Random, str], Meaning]] = {
    **dict.fromkeys(ROW_FORMS, draw_rows),
    **dict.fromkeys(FOLDER_FORMS, draw_folder),
    **dict.fromkeys(WRITTEN_FORMS, draw_written),
}


def draw_case(seed: int, number: int, form: str | None = None) -> Meaning:
    """Draws an input.

    Args:
      seed: of all inputs.
      number: of this one.
      form: its form; None takes the forms in turn.
    """
    form = form or list(FORMS)[number % len(FORMS)]
    return FORMS[form](random.Random(f"{seed}/{number}"), form)


def run_cases(
    seed: int, count: int, *, first: int = 0, form: str | None = None, keep: Path | None = None
) -> Iterator[Found]:
    """Yields the outcomes of inputs.

    Args:
      seed: of the inputs.
      count: number of inputs.
      first: number of the first input.
      form: form of all; None draws one for each.
      keep: folder that keeps the inputs.
    """
    with temporary_in_memory():
        for number in range(first, first + count):
            case = draw_case(seed, number, form)
            with tempfile.TemporaryDirectory(prefix="meanings-") as folder, working_in(folder):
                root = (keep or Path(folder)) / f"{seed}-{number}"
                root.mkdir(parents=True)
                name = f"{seed}/{number}" + (f" --form={form}" if form else "")
                yield Found(name, case, judge(case, case.write(root)), str(root))


@contextlib.contextmanager
def working_in(folder: str) -> Iterator[None]:
    """Changes the working folder, because offers write drafts of mappings there."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def temporary_in_memory() -> Iterator[None]:
    """Makes temporary folders in memory, if there is such a file system: removing some took a fifth of the time."""
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with unittest.mock.patch.object(tempfile, "tempdir", folder):
        yield
