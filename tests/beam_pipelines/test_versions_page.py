"""`index.html` beside LATEST: the versions of a dataset, as they are, and never in the way of a build."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords.beam_pipelines.report import versions_page
from tests.beam_pipelines.version_builds import Source, make_source

pytestmark = pytest.mark.report


@pytest.fixture
def source(tmp_path, picture, save, convert) -> Source:
    return make_source(tmp_path, 12, picture=picture, save=save, convert=convert)


def rows_of(output: Path) -> dict[str, str]:
    """Version -> text of its row, in the order of the page."""
    page = (output / "index.html").read_text()
    rows = re.findall(r'<tr id="(\w+)">(.*?)</tr>', page, re.DOTALL)
    return {name: " ".join(re.sub("<[^>]*>", " ", row).split()) for name, row in rows}


def links_of(output: Path) -> list[str]:
    found = re.findall(r'href="([^"#:]+)"', (output / "index.html").read_text())
    return [urllib.parse.unquote(link) for link in found]


def test_it_shows_the_versions_with_what_changed_and_links_to_their_files(source, picture, save, verify):
    assert source.build().code == 0
    save(source.folder / "cat/new.png", picture(99, 30, 40))
    (source.folder / "cat/broken.jpg").write_bytes(b"none")
    assert source.build("--accept=all", "--max_failures=0.5").code == 0
    first, second = source.versions
    rows = rows_of(source.output)
    assert list(rows) == [second, first]
    assert "LATEST" in rows[second]
    assert re.search(r" 13 [\d.]+ KB 1 copied 12, added 1, failed 1 violated: \w+", rows[second])
    assert re.search(r" 12 [\d.]+ KB 0 the first version not checked ", rows[first])
    assert "LATEST" not in rows[first]
    links = links_of(source.output)
    assert {f"{second}/{name}" for name in ("report.html", "README.md", "manifest.json", "failures.jsonl")} <= {*links}
    assert all((source.output / link).is_file() for link in links)
    assert verify(source.output).code == 0


def test_it_follows_pins_removals_and_damage(source, picture, save, run):
    for number in range(3):
        save(source.folder / f"cat/{number}_new.png", picture(90 + number, 30, 40))
        assert source.build("--guard=off", "--keep_versions=2", "--grace=0s").code == 0
    first, second = source.versions
    assert list(rows_of(source.output)) == [second, first]
    assert run("status", f"--output={source.output}", f"--pin={first}").code == 0
    assert re.match(rf"{first} LATEST pinned ", rows_of(source.output)[first])
    assert run("status", f"--output={source.output}", "--unpin").code == 0
    assert "pinned" not in (source.output / "index.html").read_text()
    assert rows_of(source.output)[second].startswith(f"{second} LATEST ")
    (source.output / first / "_SUCCESS").unlink()
    shutil.copytree(source.output / second, source.output / "20200101T000000Z")
    assert "nothing has changed" in source.build("--guard=off").out
    rows = rows_of(source.output)
    assert list(rows) == [second, first]
    assert "damaged" in rows[first]


def test_versions_that_the_page_knows_are_not_read_again(source, picture, save, monkeypatch):
    assert source.build("--no_report").code == 0
    assert not (source.output / "index.html").exists()
    assert source.build().code == 0  # lists the version of a build without pages
    opened: list[str] = []
    read = versions_page.open_published
    monkeypatch.setattr(versions_page, "open_published", lambda path: opened.append(path) or read(path))
    save(source.folder / "cat/new.png", picture(99, 30, 40))
    assert source.build("--guard=off", "--no_report").code == 0  # keeps a page true that is there
    assert opened == [str(source.latest)]
    # Another `_SUCCESS` under the same name is another version.
    os.utime(source.output / source.versions[0] / "_SUCCESS", (1, 1))
    versions_page.update_versions_page(str(source.output))
    assert opened[1:] == [str(source.output / source.versions[0])]
    assert list(rows_of(source.output)) == source.versions[::-1]


def test_what_an_edited_page_claims_to_know_is_read_again(source):
    assert source.build().code == 0
    page = source.output / "index.html"
    content = page.read_bytes()
    for known in (b"", b"{", b"[]", b'{"20260101T000000Z": {}}', b'{"20260101T000000Z": {"records": -1}}'):
        page.write_bytes(re.sub(rb'(json">).*(</script>)', rb"\1" + known + rb"\2", content))
        versions_page.update_versions_page(str(source.output))
        assert page.read_bytes() == content


def test_a_page_of_somebody_else_stays(source):
    source.output.mkdir()
    page = source.output / "index.html"
    page.write_text("<h1>mine</h1>")
    ran = source.build()
    assert (ran.code, page.read_text()) == (0, "<h1>mine</h1>")


def test_a_page_that_cannot_be_written_is_a_note(source):
    (source.output / "index.html").mkdir(parents=True)
    ran = source.build()
    assert ran.code == 0
    assert "note: index.html could not be written: " in ran.err
    assert source.latest.is_dir()


def test_names_are_text(source):
    assert source.build().code == 0
    changes: dict[str, Any] = source.changes | {"note": "</script><b>bold"}
    (source.latest / "changes.json").write_text(json.dumps(changes))
    page = versions_page.render_versions(str(source.output))
    assert "<b>" not in page
    assert page.count("</script>") == 1
    assert rows_of(source.output)
