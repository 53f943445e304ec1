"""Every passage of README.md and docs/ runs as it stands, after those above it on its page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from beam_pipelines.cli import main
from tests.docs.inputs import make_inputs
from tests.docs.pages import PAGES, PROJECT, Passage, passages_of

PASSAGES = [passage for page in PAGES for passage in passages_of(page)]
_FILE_NAME = re.compile(r"# (\S+\.yaml)$", re.MULTILINE)


class Follower:
    """Runs the passages of one page in one folder, as a person who follows the page does."""

    def __init__(self, page: Path, folder: Path) -> None:
        self._left = passages_of(page)
        self._folder = folder

    def run_to(self, last: Passage) -> None:
        """Runs what was not run yet, up to and including a passage."""
        while last in self._left:
            passage = self._left.pop(0)
            if passage.reason is None:
                self._run(passage)

    def _run(self, passage: Passage) -> None:
        if passage.language == "bash" and passage.page.name == "README.md":
            run_in_shell(passage.text)
        elif passage.language == "bash":
            run_here(passage.text)
        elif passage.language == "python":
            # The empty lines make the numbers in a traceback those of the page.
            code = compile("\n" * (passage.line - 1) + passage.text, str(passage.page), "exec")
            exec(code, {"__name__": "__main__"})
        elif passage.language == "yaml":
            name = _FILE_NAME.match(passage.text)
            assert name, "a YAML passage begins with a comment that names its file"
            (self._folder / name[1]).write_text(passage.text, encoding="utf-8")
        else:
            assert passage.language == "text", "passages are bash, python, yaml or text"


def run_in_shell(text: str) -> None:
    """Runs commands with the installed program."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", text], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run_here(text: str) -> None:
    """Runs commands of `beam-tfrecords` in this process, where Beam is imported already."""
    for line in text.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "beam-tfrecords", line
        assert main(arguments) == 0, line


@pytest.fixture(scope="module")
def followers(tmp_path_factory):
    """Page -> follower and folder; each page has a folder of its own with all inputs."""
    inputs = tmp_path_factory.mktemp("inputs")
    make_inputs(inputs)
    made = {}
    for page in PAGES:
        folder = tmp_path_factory.mktemp(page.stem)
        for entry in inputs.iterdir():
            (folder / entry.name).symlink_to(entry)
        made[page] = (Follower(page, folder), folder)
    return made


@pytest.mark.parametrize("passage", PASSAGES, ids=[passage.name for passage in PASSAGES])
def test_passage_runs(passage, followers, monkeypatch):
    if passage.reason is not None:
        pytest.skip(passage.reason)
    follower, folder = followers[passage.page]
    monkeypatch.chdir(folder)
    follower.run_to(passage)


def test_every_page_is_found():
    assert {page.name for page in PAGES} >= {"README.md", "settings.md", "failures.md"}
    assert {passage.page for passage in PASSAGES} >= {PROJECT / "README.md", PROJECT / "docs" / "python.md"}
