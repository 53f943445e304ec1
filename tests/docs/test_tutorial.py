"""The notebook of the tutorial has the passages and the text of the page."""

from __future__ import annotations

from tests.docs.tutorial_notebook import NOTEBOOK, notebook_text


def test_the_notebook_is_made_from_the_page():
    expected = notebook_text()
    assert NOTEBOOK.read_text(encoding="utf-8") == expected, "run: python -m tests.docs.tutorial_notebook"
