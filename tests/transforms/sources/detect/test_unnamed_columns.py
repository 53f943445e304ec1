"""Tables without a first row: the names that a command writes."""

from __future__ import annotations

from beam_tfrecords.transforms.sources.detect.unnamed_columns import name_columns
from tests.each import each


@each(
    "rows, header",
    [
        ([["a.jpg", "cat"]], "image,label"),
        ([["a.jpg", "training", "cat"], ["b.jpg", "test", "dog"]], "image,split,label"),
        ([["training", "a.jpg"], ["", "b.jpg"]], "split,image"),
        ([["a.jpg", "train"], ["b.jpg", "plane"]], "image,label"),
        ([["a.jpg", "1", "2", "3", "4", "dog"], ["b.jpg", "", "", "", "", ""]], "image,xmin,ymin,xmax,ymax,label"),
        ([["a.jpg", "9", "9", "3", "4", "dog"]], "image,x,y,width,height,label"),
        ([["a.jpg", "1", "0", "cat"]], "image,label,column_3,column_4"),
        ([["cat", "dog"]], None),
    ],
)
def test_cells_say_the_names(rows, header):
    assert [one.meaning for one in name_columns("t.csv", rows, ",")] == ([f"the columns {header}"] if header else [])
