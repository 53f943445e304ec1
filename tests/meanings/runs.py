"""Draws and judges many inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.meanings.forms import draw_case
from tests.meanings.oracle import judge
from tests.meanings.program import scratch_folder, temporary_in_memory
from tests.meanings.report import Found


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
            with scratch_folder() as folder:
                root = (keep or Path(folder)) / f"{seed}-{number}"
                root.mkdir(parents=True)
                name = f"{seed}/{number}" + (f" --form={form}" if form else "")
                outcome = judge(case, case.write(root))
                yield Found(name, case, outcome, str(root))
