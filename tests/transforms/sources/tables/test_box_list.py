"""Lists of boxes, as WIDER FACE has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_tfrecords.transforms.sources.tables.box_list import open_box_list
from tests.refusals import refuses

WIDER = """0--Parade/a b.jpg
2
5 6 10 12 0 0 0 0 0 0 \n7 8 1 2 2 0 0 1 2 0 \n0--Parade/2.jpg
0
0 0 0 0 0 0 0 0 0 0 \n1--Hands/3.jpg
1
1 2 3 4 0 0 0 0 0 0 \n"""


@pytest.fixture
def source(tmp_path, touch, opened):
    """Opens a list beside its images, for a layout of boxes."""
    touch("0--Parade/a b.jpg", "0--Parade/2.jpg", "1--Hands/3.jpg")

    def make(text: str):
        path = tmp_path / "train_bbx_gt.txt"
        path.write_bytes(text.encode())
        return opened(path, source="csv", needs_label=False)

    return make


def boxes_of(samples) -> list:
    return [(one.key, one.objects.boxes if one.objects else one.failure) for one in samples]


@pytest.mark.parametrize("text", [WIDER, WIDER.replace("\n", "\r\n"), f"\ufeff{WIDER}"])
def test_each_line_behind_a_count_is_a_box(source, text):
    listed = source(text)
    assert boxes_of(listed.samples()) == [
        ("0--Parade/a b.jpg", (5, 6, 15, 18)),
        ("0--Parade/a b.jpg", (7, 8, 8, 10)),
        ("0--Parade/2.jpg", ()),
        ("1--Hands/3.jpg", (1, 2, 4, 6)),
    ]
    assert any("x, y, width, height, blur, expression, illumination, invalid" in note for note in listed.notes)
    assert any("all of the class 'object'" in note for note in listed.notes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (WIDER.replace("2\n5 6", "3\n5 6"), "2 lines of boxes; expected 3 with 10 numbers"),
        (WIDER.replace("7 8 1 2 2", "7 8"), "2 lines of boxes; expected 2 with 10 numbers"),
        (WIDER.replace("7 8 1 2 2 0 0 1 2 0 \n", ""), "1 lines of boxes; expected 2 with 10 numbers"),
    ],
)
def test_an_image_with_another_number_of_boxes_is_rejected_alone(source, text, found):
    (first, failure), *others = boxes_of(source(text).samples())
    assert (first, failure[0]) == ("0--Parade/a b.jpg", "invalid_row")
    assert found in failure[1]
    assert [boxes for _, boxes in others] == [(), (1, 2, 4, 6)]


@pytest.mark.nightly
def test_more_boxes_than_an_image_can_have_are_not_held(source):
    text = WIDER.replace("2\n5 6", "300000\n5 6").replace("7 8 1 2 2 0 0 1 2 0 \n", "7 8 1 2 2 0 0 1 2 0 \n" * 299_999)
    (_, failure), *others = boxes_of(source(text).samples())
    assert "100001 lines of boxes; expected 300000" in failure[1]
    assert [boxes for _, boxes in others] == [(), (1, 2, 4, 6)]


def test_a_text_by_another_name_is_refused_with_what_reads_it(tmp_path, opened):
    (tmp_path / "list.txt").write_text(WIDER)
    with refuses("unknown_format", "input") as refused:
        opened(tmp_path / "list.txt")
    assert [one.settings for one in refused.value.suggestions] == [{"source": "csv", "layout": "detection"}]


@pytest.mark.parametrize("text", ["1.jpg\n2.jpg\n3.jpg\n", "1.jpg\n3\n2.jpg\n4\n", "3\nx y\n1.jpg 1 2\n"])
def test_other_lists_are_no_lists_of_boxes(tmp_path: Path, text):
    (tmp_path / "list.txt").write_text(text)
    assert open_box_list(str(tmp_path / "list.txt"), text.encode()) is None
