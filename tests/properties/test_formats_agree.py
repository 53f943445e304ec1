"""Rules for all sources: one meaning, whatever the format that holds it."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import build
from tests.published import Published, read_published
from tests.writers import MEANING, WRITERS, Meaning, Writer


@pytest.fixture(params=WRITERS)
def writer(request) -> Writer:
    return WRITERS[request.param]


def write(writer: Writer, folder: Path, meaning: Meaning) -> dict[str, Any]:
    """Writes a meaning in the place of another; returns the settings."""
    shutil.rmtree(folder, ignore_errors=True)
    return writer.make(folder, meaning)


def build_into(output: Path, settings: dict[str, Any], **others: Any) -> Published:
    dataset = build(output=str(output), quiet=True, **{**settings, **others})
    return read_published(dataset.path)


def lines_of(published: Published) -> list[str]:
    """Returns the meaning of all records; a table with a row for each object has no order of these."""
    pictures = ((one.split, *published.describe(one).split("; ", 1)) for one in published.records)
    return sorted(f"{split}: {picture}; {' | '.join(sorted(rest.split(' | ')))}" for split, picture, rest in pictures)


def test_every_format_gives_the_records_of_its_meaning(writer, tmp_path):
    settings = write(writer, tmp_path / "in", MEANING)
    published = build_into(tmp_path / "out", settings)
    assert lines_of(published) == writer.fit(MEANING).lines(writer)
    assert published.failures == {}
    if not {"label", "objects"}.isdisjoint(writer.holds):
        assert published.manifest["class_names"] == [*MEANING.classes]


def test_another_attempt_and_another_order_give_the_same_bytes(writer, tmp_path):
    folder = tmp_path / "in"
    first = build_into(tmp_path / "first", write(writer, folder, MEANING))
    meaning = MEANING if writer.is_numbered else MEANING.reversed()
    second = build_into(tmp_path / "second", write(writer, folder, meaning))
    assert second.shards == first.shards
    assert second.manifest["notes"] == first.manifest["notes"]


@pytest.mark.nightly
def test_what_is_replaced_is_noticed_by_the_next_build(writer, tmp_path):
    folder, others = tmp_path / "in", {"versioned": True, "max_share_change": 1}
    for meaning in (MEANING, MEANING.turned(), MEANING.turned().relabelled()):
        settings = write(writer, folder, meaning)
        published = build_into(tmp_path / "out", settings, **others)
        assert lines_of(published) == writer.fit(meaning).lines(writer)
    unchanged = build_into(tmp_path / "out", settings, **others)
    assert unchanged.manifest == published.manifest


def test_nothing_is_lost(writer, tmp_path):
    """One picture is broken, and one is there twice; `read_published` compares the sums."""
    broken, same, *rest = MEANING.items
    holds_files = not writer.is_raw
    items = [dataclasses.replace(broken, color="") if holds_files else broken, same, *rest]
    items.append(dataclasses.replace(same, name="b0"))
    settings = write(writer, tmp_path / "in", dataclasses.replace(MEANING, items=items))
    published = build_into(tmp_path / "out", settings, duplicates="drop", max_failures=1)
    names = ("records", "failures", "dropped_duplicates")
    assert [published.manifest[name] for name in names] == [6 - holds_files, holds_files, 1]
