"""Tables without a header: the names of their columns, and whether the label is certain."""

from __future__ import annotations

from beam_tfrecords.transforms.sources.detect.unnamed_columns import find_other_labels, name_cells
from beam_tfrecords.transforms.sources.names import is_image_name
from tests.each import each


@each(
    "rows, names, others",
    [
        (["a.jpg cat"], "image label", ""),
        (["a.jpg training cat", "b.jpg test dog"], "image split label", ""),
        (["training a.jpg", "test b.jpg"], "split image", ""),
        (["a.jpg train", "b.jpg plane"], "image label", ""),
        (["a.jpg 1 2 3 4 dog", "b.jpg _ _ _ _ _"], "image xmin ymin xmax ymax label", ""),
        (["a.jpg 9 9 3 4 dog"], "image x y width height label", ""),
        (["a.jpg 1 x", "b.jpg 2 y"], "image column_2 label", ""),
        (["a.jpg cat x", "b.jpg dog y", "c.jpg cat y"], "image label column_3", "column_3"),
        (["a.jpg cat x", "b.jpg dog x"], "image label column_3", ""),
        (["pug_1.jpg 1 1", "pug_2.jpg 1 1", "cat_3.jpg 2 1", "fox_4.jpg 3 2"], "image label column_3", ""),
        (["a.jpg b.jpg same", "c.jpg d.jpg other"], "image_1 image_2 label", ""),
        (
            ["l.jpg c.jpg r.jpg 0 0.9 0 3.1", "m.jpg d.jpg s.jpg -0.1 1 0 9"],
            "image_1 image_2 image_3 label column_5 column_6 column_7",
            "column_5 column_7",
        ),
    ],
)
def test_cells_say_the_names(rows, names, others):
    columns = [*zip(*([cell.strip("_") for cell in row.split()] for row in rows), strict=True)]
    found = name_cells(columns, [number for number, cells in enumerate(columns) if is_image_name(cells[0])])
    assert " ".join(found) == names
    assert " ".join(find_other_labels(columns, found)) == others


def test_the_words_of_a_line_may_be_one_class():
    for columns in (
        [("a.jpg", "b.jpg"), ("golden", "labrador"), ("retriever", "retriever")],
        [("a.jpg", "b.jpg"), ("AB", "CD"), ("1000", "1001")],
    ):
        names = name_cells(columns, [0])
        assert find_other_labels(columns, names, are_words=True) == ["column_3"]
