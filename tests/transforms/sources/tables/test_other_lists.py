"""Text files whose lines are no rows: the refusal says what reads them."""

from __future__ import annotations

import pytest

from tests.refusals import refuses
from tests.source_requests import open_source

BOXES = "0--Parade/a b.jpg\n2\n5 6 10 12 0 0 0 0 0 0 \n7 8 1 2 2 0 0 1 2 0 \n0--Parade/2.jpg\n0\n0 0 0 0 0 0 0 0 0 0 \n"
PAIRS = "1\t2\nAnn\t1\t2\nBo\t1\t2\nAnn\t1\tBo\t2\nAnn\t2\tBo\t1\n"


@pytest.mark.parametrize("source", ["auto", "csv"])
def test_a_list_of_boxes_is_read_by_a_mapping(tmp_path, source):
    (tmp_path / "list.txt").write_text(BOXES)
    with refuses("unknown_format", "input", "mapping", says=["`mapping=widerface`"]):
        open_source(tmp_path / "list.txt", source=source)


@pytest.mark.parametrize("source", ["auto", "csv"])
def test_a_list_of_pairs_is_no_table(tmp_path, source):
    (tmp_path / "list.txt").write_text(PAIRS)
    with refuses("unsupported_format", "input", says=["docs/unsupported.md#lists-of-pairs"]):
        open_source(tmp_path / "list.txt", source=source)
