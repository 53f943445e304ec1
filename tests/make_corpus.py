"""Makes more than two hundred kinds of unusual and broken image files, each with its expected result.

    python -m tests.make_corpus FOLDER

writes them as FOLDER/ok/<kind> and FOLDER/<reason>/<kind>. Tests call `corpus()`.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from pathlib import Path

from PIL import Image

from beam_tfrecords.errors import FailureReason
from tests.corpus_broken import broken_files
from tests.corpus_valid import valid_files


@dataclasses.dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
      data: its bytes.
      picture: what a viewer shows (mode L, RGB or RGBA); None if the file is to be rejected.
      reason: why it is to be rejected; None if it is not.
    """

    data: bytes
    picture: Image.Image | None = None
    reason: FailureReason | None = None


@functools.cache
def corpus() -> dict[str, Case]:
    """Every kind, by a file name with the right extension."""
    return {
        **{name: Case(data, picture=seen) for name, (data, seen) in valid_files().items()},
        **{name: Case(data, reason=reason) for name, (data, reason) in broken_files().items()},
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    cases = corpus()
    for name, case in cases.items():
        kind = folder / (case.reason.value if case.reason else "ok")
        kind.mkdir(parents=True, exist_ok=True)
        (kind / name).write_bytes(case.data)
    print(f"{len(cases)} files in {folder}, {sum(case.reason is None for case in cases.values())} of them valid")


if __name__ == "__main__":
    main()
