"""Runs the passages of one page in one folder, as a person who follows the page does."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

from tests.core.commands import run_command
from tests.docs.pages import Passage, passages_of

# The current folder of a reader of the pages.
HOME = "/home/you"
_DIFFERS = re.compile(r"\b[0-9.]+ s\b|\d+/s\b|\d{8}T\d{6}Z|\b[0-9a-f]{16}\b")
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
        self._printed = ""

    def run_to(self, last: Passage) -> None:
        """Runs what was not run yet, up to and including a passage; the current folder is that of the follower."""
        while last in self._left:
            passage = self._left.pop(0)
            if passage.reason is None:
                self._run(passage)

    def _run(self, passage: Passage) -> None:
        if passage.file is not None:
            path = self.folder / passage.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(passage.text, encoding="utf-8")
        elif passage.prints:
            for line in passage.text.splitlines():
                assert self.has_printed(line, self._printed), self._printed
        elif passage.language == "bash":
            self._printed = run_here(passage.text, exit_code=passage.exit_code)
        elif name := _FILE_NAME.match(passage.text):
            (self.folder / name[1]).write_text(passage.text, encoding="utf-8")
        elif passage.language == "python":
            # The empty lines make the numbers in a traceback those of the page.
            code = compile("\n" * (passage.line - 1) + passage.text, str(passage.page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, {"__name__": "__main__"})
            self._printed = printed.getvalue()
        else:
            assert passage.language == "text", "passages are bash, python, text, or files that begin with their name"

    def has_printed(self, line: str, printed: str) -> bool:
        """Whether what was printed in the folder has a line of the page, or one that contains it."""
        return self._as_on_pages(line.strip()) in self._as_on_pages(printed)

    def _as_on_pages(self, text: str) -> str:
        """Hides what differs from run to run: durations and times; pages have another folder, too."""
        return _DIFFERS.sub("…", text.replace(str(self.folder), HOME))


def run_here(text: str, *, exit_code: int = 0) -> str:
    """Runs commands of `beam-tfrecords` in this process, where Beam is imported already; returns what they print.

    The last one ends with the exit code, and those before it succeed.
    """
    codes = []
    printed = ""
    for line in text.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "beam-tfrecords", line
        ran = run_command(*arguments)
        codes.append(ran.code)
        printed += ran.out + ran.err
    assert codes == [*[0] * (len(codes) - 1), exit_code], f"{text}\n{printed}"
    return printed
