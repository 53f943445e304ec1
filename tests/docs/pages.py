"""The pages of the documentation, and the fenced passages in them."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGES = (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md")))
SCRIPTS = PROJECT / "docs" / "from_your_script.md"
UNSUPPORTED = PROJECT / "docs" / "unsupported.md"

_PASSAGE = re.compile(
    r"^(?P<indent> *)"
    r"(?:<!-- (?:not run: (?P<reason>[^\n]*)|file: (?P<file>\S+)|exits: (?P<exit_code>\d)|(?P<prints>prints)) -->\n"
    r"(?P=indent))?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Passage:
    """A fenced passage.

    Attributes:
      page: the file that it is in.
      line: number of its first line, from 1.
      language: what the fence names.
      text: what is between the fences.
      reason: why it cannot be run here, or None.
      file: name of the file that it is, or None.
      prints: whether the passage above it prints these lines.
      exit_code: exit code of its last command.
    """

    page: Path
    line: int
    language: str
    text: str
    reason: str | None
    file: str | None = None
    prints: bool = False
    exit_code: int = 0

    @property
    def name(self) -> str:
        """Page and line, for people."""
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


def passages_of(page: Path) -> list[Passage]:
    """The passages of a page, from top to bottom."""
    return [passage for _, passage in split_page(page) if passage is not None]


def prose_of(page: Path) -> str:
    """A page without its passages."""
    return "".join(prose for prose, _ in split_page(page))


def split_page(page: Path) -> list[tuple[str, Passage | None]]:
    """Splits a page into its passages, each with the prose before it; None is after the last one."""
    text = page.read_text(encoding="utf-8")
    found = list(_PASSAGE.finditer(text))
    starts = [0, *(one.end() for one in found)]
    ends = [*(one.start() for one in found), len(text)]
    passages = [*(_passage_of(page, one) for one in found), None]
    return [(text[start:end], passage) for start, end, passage in zip(starts, ends, passages, strict=True)]


def _passage_of(page: Path, found: re.Match[str]) -> Passage:
    return Passage(
        page=page,
        line=found.string.count("\n", 0, found.start("text")) + 1,
        language=found["language"],
        text=textwrap.dedent(found["text"]),
        reason=found["reason"],
        file=found["file"],
        prints=found["prints"] is not None,
        exit_code=int(found["exit_code"] or 0),
    )
