"""The page of public datasets is the one that their cases make."""

from __future__ import annotations

from pathlib import Path

from tests.docs import datasets_page

PAGE = Path(__file__).parents[2] / "docs/datasets.md"


def test_the_page_is_the_generated_one():
    say = "say: python -m tests.docs.datasets_page > docs/datasets.md"
    assert PAGE.read_text(encoding="utf-8") == datasets_page.page(), say
