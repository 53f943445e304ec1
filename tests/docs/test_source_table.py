"""README's table of sources: every source is in it, and every command runs as it stands there."""

from __future__ import annotations

import re
import shlex

import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.transforms.sources.registry import NAMES
from tests.conftest import run_command
from tests.docs.pages import PROJECT

README = PROJECT / "README.md"
ROW = re.compile(r"^\| (?P<sources>.*?) \|(?P<input>.*)\| `(?P<flags>--.*)` \|$", re.MULTILINE)
ROWS = [match for match in ROW.finditer(README.read_text(encoding="utf-8")) if "--input=" in match["flags"]]


@pytest.mark.parametrize("row", ROWS, ids=[row["sources"] for row in ROWS])
def test_the_command_of_a_source_makes_a_dataset(row, follower, tmp_path, monkeypatch):
    monkeypatch.chdir(follower(README).folder)
    flags = shlex.split(row["flags"].replace(r"\|", "|"))
    ran = run_command("convert", f"--output={tmp_path / 'out'}", "--image_size=32", *flags)
    assert ran.code == 0, ran.err
    assert open_dataset(tmp_path / "out").manifest["records"] > 0


def test_every_source_is_in_the_table():
    assert set(re.findall(r"`(\w+)`", "".join(row["sources"] for row in ROWS))) == set(NAMES)
