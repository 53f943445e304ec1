"""How builds of tests list their inputs: in many parts, and in the job of a build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beam_tfrecords.beam_pipelines.build.listing import list_for_build

# What decides where an input is listed, and in how many parts -> values that give many parts.
_WHERE = {
    "beam_tfrecords.transforms.sources.folders.image_folder.MOST_LISTED_HERE": 5,
    "beam_tfrecords.storage.local._LEAST_PART": 7,
    "beam_tfrecords.transforms.sources.tables.table_source._LEAST_BYTES": 0,
}
_PARTS = {
    "beam_tfrecords.transforms.sources.tables.text_table.RANGE_BYTES": 1000,
    "beam_tfrecords.transforms.sources.tables.parquet_table._RANGE_ROWS": 50,
}


@pytest.fixture
def count_parts(monkeypatch) -> Callable[..., list[int]]:
    """From its call on, the parts in which workers list an input are counted: one number for each listing.

    Takes what happens before workers list.
    """
    index = list_for_build.list_by_workers

    def count(before: Callable[[], Any] = lambda: None) -> list[int]:
        counts: list[int] = []

        def counted(parts, *arguments):
            before()
            counts.append(len(parts))
            index(parts, *arguments)

        monkeypatch.setattr(list_for_build, "list_by_workers", counted)
        return counts

    return count


@pytest.fixture
def in_parts(monkeypatch, count_parts) -> Callable[..., list[int]]:
    """From its call on, workers list inputs of any size in many parts, which are counted as by `count_parts`."""

    def switch(**options: Any) -> list[int]:
        for name, value in (_WHERE | _PARTS).items():
            monkeypatch.setattr(name, value)
        return count_parts(**options)

    return switch


@pytest.fixture
def in_job(monkeypatch) -> Callable[[], None]:
    """From its call on, the job of a build lists all inputs that workers can list; its launcher does not wait."""
    from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
    from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, PipelineJob

    def switch() -> None:
        for name, value in _WHERE.items():
            monkeypatch.setattr(name, value)
        runner = type(find_runner([]))
        monkeypatch.setattr(runner, "lists_in_job", True)
        # `submit` of this runner returns after the end of the job.
        record = JobRecord("DirectRunner", "1", "")
        monkeypatch.setattr(runner, "submit", lambda _, pipeline, remember: PipelineJob(record, pipeline.run()))

    return switch
