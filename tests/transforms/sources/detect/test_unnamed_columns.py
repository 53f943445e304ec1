"""Tables without a first row: the names that a command writes."""

from __future__ import annotations

from beam_tfrecords.transforms.sources.detect.unnamed_columns import name_columns
from tests.each import each


@each(
    "rows, header",
    [
        ([["a.jpg", "cat"]], "image,label"),
        ([["a.jpg", "training", "cat"], ["b.jpg", "test", "dog"]], "image,split,label"),
        ([["training", "a.jpg"], ["", "b.jpg"]], "split,image, without labels"),
        ([["a.jpg", "train"], ["b.jpg", "plane"]], "image,label"),
        ([["a.jpg", "1", "2", "3", "4", "dog"], ["b.jpg", "", "", "", "", ""]], "image,xmin,ymin,xmax,ymax,label"),
        ([["a.jpg", "9", "9", "3", "4", "dog"]], "image,x,y,width,height,label"),
        ([["a.jpg", "1", "x"], ["b.jpg", "2", "y"]], "image,column_2,column_3, without labels"),
        ([["a.jpg", "cat", "x"], ["b.jpg", "dog", "x"]], "image,label,column_3"),
        ([["a.jpg", "b.jpg", "same"], ["c.jpg", "d.jpg", "other"]], "image_1,image_2,label, with 2 images in each row"),
        (
            [
                ["l.jpg", "c.jpg", "r.jpg", "0", "0.9", "0", "30.1"],
                ["l2.jpg", "c2.jpg", "r2.jpg", "-0.1", "1", "0", "9"],
            ],
            "image_1,image_2,image_3,column_4,column_5,column_6,column_7, with 3 images in each row, without labels",
        ),
        ([["cat", "dog"]], None),
    ],
)
def test_cells_say_the_names(rows, header):
    assert [one.meaning for one in name_columns("t.csv", rows, ",")] == ([f"the columns {header}"] if header else [])
