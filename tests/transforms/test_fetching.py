"""Reading a block's images: order, reasons, limits."""

from __future__ import annotations

from transforms.errors import FailureReason, SampleError
from transforms.fetching import fetch
from transforms.values import SampleRef


def reasons(outcomes) -> list:
    return [data.reason if isinstance(data, SampleError) else data for _, data in outcomes]


def test_each_ref_comes_with_its_bytes_or_its_reason_in_order(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"image")
    (tmp_path / "empty.jpg").write_bytes(b"")
    refs = [
        SampleRef("a", str(tmp_path / "a.jpg"), size=5),
        SampleRef("empty", str(tmp_path / "empty.jpg")),
        SampleRef("missing", str(tmp_path / "missing.jpg"), size=7),
        SampleRef("row", None),
        SampleRef("refused", None, failure=("invalid_row", "line 3")),
    ]
    outcomes = list(fetch(refs, read_images=True, max_file_size=100))
    assert [ref for ref, _ in outcomes] == refs
    expected = [b"image", FailureReason.EMPTY, FailureReason.UNREADABLE, None, FailureReason.INVALID_ROW]
    assert reasons(outcomes) == expected


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path):
    with (tmp_path / "huge.jpg").open("wb") as file:
        file.truncate(10**12)  # sparse: reading it would take all memory
    refs = [SampleRef("listed", str(tmp_path / "huge.jpg"), size=10**12), SampleRef("not", str(tmp_path / "huge.jpg"))]
    assert reasons(fetch(refs, read_images=True, max_file_size=10**9)) == [FailureReason.TOO_LARGE_FILE] * 2


def test_a_layout_without_images_reads_none(tmp_path):
    refs = [SampleRef("a", str(tmp_path / "missing.jpg"))]
    assert reasons(fetch(refs, read_images=False, max_file_size=1)) == [None]
