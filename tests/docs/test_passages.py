"""Every passage of README.md and docs/ runs as it stands, after those above it on its page."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, PROJECT, SCRIPTS, UNSUPPORTED, Passage, passages_of

# Those of the others run in `test_scripts` and `test_unsupported`, which also look at what they make.
PASSAGES = [passage for page in PAGES if page not in (SCRIPTS, UNSUPPORTED) for passage in passages_of(page)]


def marks_of(passage: Passage) -> list[pytest.MarkDecorator]:
    page = passage.page
    # Half a minute in which a network is trained is a tenth of all quick tests.
    if page.name == "README.md" and "model.fit" not in passage.text:
        return []
    # Transforms of Beam's own are more than the plain runner knows.
    return [
        pytest.mark.nightly,
        *([pytest.mark.local_runner] if page.name in ("beam.md", "your_own_code.md") else []),
    ]


@pytest.mark.parametrize(
    "passage", [pytest.param(passage, id=passage.name, marks=marks_of(passage)) for passage in PASSAGES]
)
def test_passage_runs(passage, follower, monkeypatch):
    if passage.reason is not None:
        pytest.skip(passage.reason)
    follower = follower(passage.page)
    monkeypatch.chdir(follower.folder)
    follower.run_to(passage)


def test_every_page_is_found():
    assert {page.name for page in PAGES} >= {"README.md", "settings.md", "failures.md", "from_your_script.md"}
    assert {passage.page for passage in PASSAGES} >= {PROJECT / "README.md", PROJECT / "docs" / "python.md"}
