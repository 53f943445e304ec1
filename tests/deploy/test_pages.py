"""The pages of deploy/: their commands are commands, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.core.command_flags import read_flags
from tests.docs.pages import passages_of, prose_of

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "deploy").rglob("*.md"))
COMMANDS = [
    (page, " ".join(shlex.split(command, comments=True)))
    for page in PAGES
    for passage in passages_of(page)
    for command in passage.text.replace("\\\n", " ").splitlines()
    if command.startswith("beam-tfrecords convert")
]

every_page = pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])


@every_page
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)\s#]+)", prose_of(page)):
        assert "://" in target or (page.parent / target).is_file(), target


@every_page
def test_files_that_are_named_exist(page):
    for name in re.findall(r"\bdeploy/[\w/.-]+\w", page.read_text()):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[page.name for page, _ in COMMANDS])
def test_builds_have_flags_that_exist(page, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nightly.yaml").write_text("input: photos/\n")
    read_flags(shlex.split(command)[2:])
