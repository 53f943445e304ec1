"""The pages of the documentation, and the fenced passages in them."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGES = (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md")))
SCRIPTS = PROJECT / "docs" / "scripts.md"
UNSUPPORTED = PROJECT / "docs" / "unsupported.md"

_PASSAGE = re.compile(
    r"^(?P<indent> *)(?:<!-- not run: (?P<reason>[^\n]*) -->\n(?P=indent))?"
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
    """

    page: Path
    line: int
    language: str
    text: str
    reason: str | None

    @property
    def name(self) -> str:
        """Page and line, for people."""
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


def passages_of(page: Path) -> list[Passage]:
    """The passages of a page, from top to bottom."""
    text = page.read_text(encoding="utf-8")
    return [
        Passage(
            page=page,
            line=text.count("\n", 0, found.start("text")) + 1,
            language=found["language"],
            text=textwrap.dedent(found["text"]),
            reason=found["reason"],
        )
        for found in _PASSAGE.finditer(text)
    ]


def prose_of(page: Path) -> str:
    """A page without its passages."""
    return _PASSAGE.sub("", page.read_text(encoding="utf-8"))
