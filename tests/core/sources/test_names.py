"""Which words of a folder's name say what is in it."""

from __future__ import annotations

import pytest

from beam_tfrecords.transforms.sources.detect.names import is_annotation, is_mask_folder

MASKS = ("mask", "masks", "label", "labels", "annotations", "gt", "groundtruth", "segmentation", "trimap", "matte")
NO_MASKS = ("bbox", "bboxes", "xmls", "depth", "disparity", "lr", "lq")


@pytest.mark.parametrize("form", ["{}", "train_{}", "{}_fine", "gt_{}", "{}-ground-truth"])
@pytest.mark.parametrize("word", [*MASKS, *NO_MASKS])
def test_annotations_may_be_masks_if_no_word_says_that_they_are_something_else(word, form):
    for name in (form.format(word), form.format(word).upper(), form.format(word.title())):
        assert is_annotation(name) or form != "{}"
        assert is_mask_folder(name) == (word in MASKS)
