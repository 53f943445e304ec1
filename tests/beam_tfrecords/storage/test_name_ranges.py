"""Listing by ranges of names: every name once, wherever a range is cut."""

from __future__ import annotations

import threading
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.storage import FileEntry, name_ranges
from beam_tfrecords.storage.name_ranges import Names, Page, find_middle, list_at_once, list_below, partition_below

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


def store_of(names: list[str], *, size: int) -> name_ranges.ListPage:
    """A store with these objects, and so many on a page."""

    def list_page(after: str, before: str | None) -> Page:
        found = [name for name in sorted(names) if after < name and (before is None or name <= before)]
        entries = [FileEntry(name, 1, 0) for name in found[:size]]
        return Page(entries, found[0] if found else "", found[size - 1] if len(found) > size else "")

    return list_page


@given(names=st.sets(NAMES, max_size=60), size=st.integers(1, 7), first=st.integers(1, 4), threads=st.integers(1, 5))
def test_every_name_is_listed_once(names, size, first, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name_ranges, "_FIRST_PAGES", first)
        patch.setattr(name_ranges, "_THREADS", threads)
        pages = list_at_once(store_of(sorted(names), size=size))
        assert sorted(entry.path for page in pages for entry in page.entries) == sorted(names)


@given(
    names=st.tuples(NAMES, NAMES).map(sorted),
    before=st.none() | NAMES,
    letters=st.sets(st.characters(exclude_categories=["Cs"]), min_size=1),
)
def test_a_middle_lies_behind_the_page_and_within_the_range(names, before, letters):
    middle = find_middle(*names, before, letters)
    assert middle is None or (names[1] < middle and (before is None or middle < before))
    assert middle is None or middle.encode()


def test_names_that_share_a_beginning_come_first():
    middle = find_middle("train/cat_0001.jpg", "train/cat_0999.jpg", None, "abc")
    assert "train/cat_9" < middle < "train/dog"


def test_a_middle_halves_numbered_names():
    assert find_middle("0010.jpg", "0011.jpg", "0090.jpg", "0123456789.jpg").startswith("005")


def test_an_error_ends_the_listing_and_its_threads(monkeypatch):
    monkeypatch.setattr(name_ranges, "_FIRST_PAGES", 1)
    list_page = store_of([f"{number:03}" for number in range(500)], size=3)
    calls = iter(range(1000))

    def fail(after: str, before: str | None) -> Page:
        if next(calls) == 20:
            raise ValueError("stop")
        return list_page(after, before)

    running = set(threading.enumerate())
    with pytest.raises(ValueError, match="stop"):
        list(list_at_once(fail))
    assert set(threading.enumerate()) == running


def names_of(names: list[str], *, size: int) -> Names:
    """Of a bucket with these objects, and so many on a page."""

    def list_page(after: str, before: str | None, *, prefix: str, **_: int) -> Page:
        below = [f"gs://photos/{name}" for name in names if name.startswith(prefix)]
        bounds = f"gs://photos/{after}" if after else "", None if before is None else f"gs://photos/{before}"
        entries, *names_found = store_of(below, size=size)(*bounds)
        return Page(entries, *(name.removeprefix("gs://photos/") for name in names_found))

    return Names("gs://photos/", "", literal=True, list_page=list_page)


@given(names=st.sets(NAMES, max_size=60), size=st.integers(1, 7), parts=st.integers(1, 9))
def test_every_name_is_in_one_part(names, size, parts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name_ranges, "_PARTS", parts)
        of = names_of(sorted(names), size=size)
        found = [entry.path for part in partition_below(of) for entry in list_below(of, part=part)]
        assert sorted(found) == sorted(f"gs://photos/{name}" for name in names)


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
    of = names_of(names, size=20)
    bounds = partition_below(of)
    ends = [(bisect_right(names, after), bisect_right(names, before) if before else 6_000) for after, before in bounds]
    counts = [end - start for start, end in ends]
    assert sum(counts) == 6_000
    assert 50 <= len(counts) <= 200
    assert max(counts) <= 750
