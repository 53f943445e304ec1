"""Runs the passages of one page in one folder, as a person who follows the page does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.conftest import run_command
from tests.docs.pages import Passage, passages_of

_FILE_NAME = re.compile(r"# (\S+\.(?:yaml|py))$", re.MULTILINE)


class Follower:
    """Follows a page.

    Args:
      page: the page.
      folder: with all inputs.
    """

    def __init__(self, page: Path, folder: Path) -> None:
        self.folder = folder
        self._left = passages_of(page)

    def run_to(self, last: Passage) -> None:
        """Runs what was not run yet, up to and including a passage; the current folder is that of the follower."""
        while last in self._left:
            passage = self._left.pop(0)
            if passage.reason is None:
                self._run(passage)

    def _run(self, passage: Passage) -> None:
        if passage.language == "bash":
            run_here(passage.text)
        elif name := _FILE_NAME.match(passage.text):
            (self.folder / name[1]).write_text(passage.text, encoding="utf-8")
        elif passage.language == "python":
            # The empty lines make the numbers in a traceback those of the page.
            code = compile("\n" * (passage.line - 1) + passage.text, str(passage.page), "exec")
            exec(code, {"__name__": "__main__"})
        else:
            assert passage.language == "text", "passages are bash, python, text, or files that begin with their name"


def run_here(text: str) -> None:
    """Runs commands of `beam-tfrecords` in this process, where Beam is imported already."""
    for line in text.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "beam-tfrecords", line
        ran = run_command(*arguments)
        assert ran.code == 0, f"{line}\n{ran.err}"
