"""README.md and docs/ link to pages and headings that exist, and README.md shows what was measured."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from PIL import Image

from tests.docs.pages import PAGES, PROJECT, prose_of

README = PROJECT / "README.md"
DOCS = PROJECT / "docs"
_PAGE_NAME = re.compile(r"(?:(?<![\w/])|\.\./)docs/([a-z_]+(?:/[a-z_]+)*\.md)(?:#([a-z0-9-]+))?")

every_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def check_link(file: Path, anchor: str) -> None:
    assert file.is_file(), file
    if anchor:
        titles = re.findall(r"^#+ (.+)$", prose_of(file), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, (file, anchor)


def links_of(page: Path) -> list[tuple[Path, str]]:
    """Files and anchors that a page links to."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose_of(page))
    parts = [target.partition("#") for target in targets if "://" not in target]
    return [(Path(os.path.normpath(page.parent / name)) if name else page, anchor) for name, _, anchor in parts]


@every_page
def test_links_lead_to_files_and_headings(page):
    for file, anchor in links_of(page):
        check_link(file, anchor)


def test_links_in_code_and_messages_lead_to_pages():
    found = 0
    for folder in ("beam_tfrecords", "benchmarks", "deploy"):
        for path in (PROJECT / folder).rglob("*"):
            if path.suffix in {".jinja", ".json", ".md", ".py", ".sh", ".yaml"}:
                text = path.read_text(encoding="utf-8")
                for name, anchor in _PAGE_NAME.findall(text):
                    found += 1
                    check_link(DOCS / name, anchor)
    assert found > 20


def test_the_readme_leads_to_every_page():
    reached, left = set(), {README}
    while left:
        page = left.pop()
        reached.add(page)
        left |= {file for file, _ in links_of(page) if file.suffix == ".md"} - reached
    assert reached >= {*PAGES}


def test_the_readme_shows_the_report_and_the_benchmark_and_says_what_is_in_the_pictures():
    pictures = re.findall(r"!\[([^]]*)\]\((docs/[^)]+)\)", README.read_text(encoding="utf-8"))
    assert [name for _, name in pictures] == ["docs/report.png", "docs/benchmarks.png"]
    for text, name in pictures:
        assert text
        with Image.open(PROJECT / name) as picture:
            assert picture.format == "PNG"
            assert picture.width <= 1000
        assert (PROJECT / name).stat().st_size < 150_000


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").split()) <= 700


def test_the_readme_has_the_measured_rate():
    words = " ".join(README.read_text(encoding="utf-8").split())
    (named,) = re.findall(r"it converts (\d+) real ImageNet photos per second: ([\d.]+) times as many as", words)
    measured = (DOCS / "benchmarks.md").read_text(encoding="utf-8").partition("tables.py: real_photos")[2]
    (rate,) = re.findall(r"\*\*beam-tfrecords\*\* \| (\d+)", measured.partition("\n\n")[0])
    (ratio,) = re.findall(r"draft\(\).* ([\d.]+)x \|", measured.partition("\n\n")[0])
    assert named == (rate, ratio)
