"""Writes the Python passages of the pages as modules for type checkers."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import PAGES, passages_of

# A call that no type checker may accept: the API has types only if this one is found.
_WRONG = "from beam_tfrecords import plan\n\nplan('photos/', 'out', image_size=2.5)\n"
WRONG_LINE = "wrong.py:3:"


def write_passages(folder: Path) -> list[Path]:
    """Writes each passage to a file named after its page and line, and `wrong.py`; returns the files.

    Passages that continue another one are not complete, and left out.
    """
    files = {
        f"{one.page.stem.lower()}_{one.line}.py": one.text
        for page in PAGES
        for one in passages_of(page)
        if one.language == "python" and not (one.reason or "").startswith("continues")
    }
    for name, text in {**files, "wrong.py": _WRONG}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in (*files, "wrong.py")]


def errors_in(printed: str) -> tuple[list[str], list[str]]:
    """Returns the errors that a type checker printed: those of the passages, and those of the wrong call."""
    errors = [line for line in printed.splitlines() if " error: " in line]
    wrong = [line for line in errors if WRONG_LINE in line]
    return [line for line in errors if line not in wrong], wrong
