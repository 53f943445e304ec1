"""The tables of sources: every command runs as it stands."""

from __future__ import annotations

import re
import shlex

import pytest

from beam_tfrecords import open_dataset
from tests.core.commands import run_command
from tests.docs.pages import PROJECT

ROW = re.compile(r"^\| (?P<input>.*) \| `(?P<flags>--(?:source|input|images)=.*)` \|$", re.MULTILINE)
PAGES = (PROJECT / "README.md", PROJECT / "docs" / "sources.md")
ROWS = [(page, match) for page in PAGES for match in ROW.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "row"), ROWS, ids=[f"{page.name} {row['flags']}" for page, row in ROWS])
def test_the_command_of_a_source_makes_a_dataset(page, row, follower, tmp_path, monkeypatch):
    monkeypatch.chdir(follower(page).folder)
    flags = shlex.split(row["flags"].replace(r"\|", "|"))
    if "--source=scans" in flags:
        pytest.skip("tests/integration/test_scans.py reads scans, with the extra medical")
    ran = run_command("convert", f"--output={tmp_path / 'out'}", "--image_size=32", *flags)
    assert ran.code == 0, ran.err
    assert open_dataset(tmp_path / "out").manifest["records"] > 0
