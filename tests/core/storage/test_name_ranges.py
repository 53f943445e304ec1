"""Listing by ranges of names: every name once, wherever a range is cut."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.storage import FileEntry, name_ranges
from beam_tfrecords.storage.name_ranges import Names, Page

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
ROOT = "gs://photos/"


def names_of(names: list[str], *, page: int) -> Names:
    """Of a bucket with these objects, and so many on a page at most."""

    def list_page(after: str, before: str | None, *, prefix: str, size: int) -> Page:
        found = [
            name
            for name in sorted(names)
            if name.startswith(prefix) and after < name and (before is None or name <= before)
        ]
        some = found[: min(size, page)]
        return Page([FileEntry(ROOT + name, 1, 0) for name in some], some[-1] if len(found) > len(some) else "")

    return Names(ROOT, "", literal=True, list_page=list_page)


@given(names=st.sets(NAMES, max_size=60), page=st.integers(1, 7), limit=st.none() | st.integers(0, 70))
def test_every_name_is_listed_once(names, page, limit):
    listed = [entry.path for entry in names_of(sorted(names), page=page).list_files(limit=limit)]
    assert listed == sorted(ROOT + name for name in names)[:limit]


@given(names=st.sets(NAMES, max_size=60), page=st.integers(1, 7), parts=st.integers(1, 9))
def test_every_name_is_in_one_part(names, page, parts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name_ranges, "_PARTS", parts)
        of = names_of(sorted(names), page=page)
        found = [entry.path for part in of.partition() for entry in of.list_files(part=part)]
        assert sorted(found) == sorted(ROOT + name for name in names)


@pytest.mark.parametrize(
    "layout",
    [
        "{0:06d}.jpg",
        pytest.param("n{1:04d}/{0:06d}.jpg", marks=pytest.mark.nightly),
        pytest.param("a/long/beginning/{2}/img_{0}.jpg", marks=pytest.mark.nightly),
    ],
)
def test_parts_have_about_as_many_names(layout, monkeypatch):
    monkeypatch.setattr(name_ranges, "_PARTS", 50)
    names = sorted(layout.format(number, number % 200, number % 3) for number in range(6_000))
    bounds = names_of(names, page=20).partition()
    ends = [(bisect_right(names, after), bisect_right(names, before) if before else 6_000) for after, before in bounds]
    counts = [end - start for start, end in ends]
    assert sum(counts) == 6_000
    assert 50 <= len(counts) <= 200
    assert max(counts) <= 750
