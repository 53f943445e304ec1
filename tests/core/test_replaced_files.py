"""The files that a build replaces: removed once, and ours until then, wherever the build is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.workspace.output_folder import (
    find_replaced_files,
    is_open,
    replace_files,
    start_journal,
)

OLD, NEW = ["README.md", "_SUCCESS", "a-train.tfrecord-00000-of-00001"], "b-train.tfrecord-00000-of-00001"


@pytest.fixture
def output(tmp_path) -> str:
    """An output in which a build has started to replace a dataset."""
    for name in OLD:
        (tmp_path / name).touch()
    start_journal(str(tmp_path), OLD)
    return str(tmp_path)


def names(output: str) -> list[str]:
    return sorted(path.name for path in Path(output).iterdir() if path.name != ".build")


def test_a_second_attempt_removes_nothing_that_the_first_has_composed(output):
    assert not is_open(output)
    for _ in range(2):
        replace_files(output, [NEW, "_SUCCESS"], is_new=False, delete=storage.delete_files)
        assert is_open(output)
        for name in (NEW, "_SUCCESS"):
            (Path(output) / name).touch()
        assert names(output) == ["_SUCCESS", NEW]


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_what_a_killed_removal_leaves_is_replaced_by_the_next_build(output, calls):
    deleted = []

    def delete(paths):
        if len(deleted) == calls:
            raise KeyboardInterrupt
        deleted.append(paths)
        storage.delete_files(paths)

    if calls < 2:
        with pytest.raises(KeyboardInterrupt):
            replace_files(output, [NEW], is_new=False, delete=delete)
        # `_SUCCESS` goes first.
        assert names(output) == OLD[:1] * (calls < 2) + OLD[1:2] * (calls < 1) + OLD[2:]
    else:
        replace_files(output, [NEW], is_new=False, delete=delete)
        (Path(output) / NEW).touch()
    left = names(output)
    assert find_replaced_files(output) == left
    start_journal(output, left)
    replace_files(output, [], is_new=False, delete=storage.delete_files)
    assert names(output) == []


def test_nothing_is_written_beside_old_files_if_a_power_loss_damaged_the_journal(output):
    (Path(output) / ".build/claimed").write_bytes(b"")
    assert not is_open(output)
    with pytest.raises(BuildError, match="claimed is damaged; delete it"):
        replace_files(output, [NEW], is_new=False, delete=storage.delete_files)
    assert names(output) == OLD
