"""Every message that offers a flag is in a case or a test that follows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.each import each
from tests.package_code import package_nodes

ROOT = Path(__file__).parents[2]
# A text of a message that offers a flag -> the cases, the test, or the test with a server that follow it.
FOLLOWED = {
    "use `image_encoding=png`, `image_encoding=": "tests/cases/hints.yaml",
    "; use `image_encoding=png`": "tests/cases/hints.yaml",
    "use, for example, `image_size=224`": "tests/cases/hints.yaml",
    "use `image_encoding=raw`": "tests/cases/hints.yaml",
    "{} needs fractions; use, for example,": "tests/cases/hints.yaml",
    "; leave `{}` out or give a table": "tests/cases/hints.yaml",
    "give a table as `input` or another `layout`": "tests/cases/hints.yaml",
    "; use `versioned`, or choose": "tests/beam_pipelines/test_output_folder.py",
    "use `overwrite` to replace it": "tests/beam_pipelines/test_output_folder.py",
    ", or `reuse=none`": "tests/beam_pipelines/test_output_folder.py",
    "; use `classes={}` to leave them out": "tests/cases/hints.yaml",
    "needs `label_pattern`; use, for example,": "tests/cases/hints.yaml",
    "has no group named label; use, for example,": "tests/cases/hints.yaml",
    "leave it out and name the column": "tests/cases/hints.yaml",
    "; use `layout=multilabel`": "tests/cases/tables.yaml",
    "or leave `label_type` out": "tests/cases/tables.yaml",
    "give their separator in `label_separator`": "tests/cases/columns.yaml",
    "; if they are, use `label_separator=": "tests/cases/hints.yaml",
    "use `label_type=float` to store numbers": "tests/cases/tables.yaml",
    "use `class_names={}`, in the order of the indices": "tests/cases/tables.yaml",
    "use `class_names` with all of them": "tests/cases/hints.yaml",
    "if it says the splits, use": "tests/cases/columns.yaml",
    "; leave `splits` out to use it, or use": "tests/cases/columns.yaml",
    "or give fractions (`splits=train=0.9,test=0.1`)": "tests/cases/columns.yaml",
    "if they are captions, use `layout=captions`": "tests/cases/coco.yaml",
    "give TFRecord files as `input`": "tests/cases/kept_records.yaml",
    "and samples are parts of them; use `layout=columns`": "tests/properties/test_kept_records.py",
    "expected 1, 3 or 4, or `layout=array`": "tests/properties/test_pixels.py",
    "expected 1, 3 or 4 channels, or `layout=array`": "tests/properties/test_pixels.py",
    "or a size and a type such as `pixels=28x28:uint8`": "tests/properties/test_pixels.py",
    "; give files of images as `input`": "tests/cases/arrays.yaml",
    "which say their sizes; leave `pixels` out": "tests/properties/test_pixels.py",
    "no feature of the records names image files": "tests/cases/records.yaml",
    "if these are boxes, use `layout=detection`": "tests/cases/coco.yaml",
    "use `layout=detection` for the boxes alone": "tests/cases/voc.yaml",
    "says how many follow a box; use `layout=detection`": "tests/cases/yolo.yaml",
    "has 'keypoints'; use `layout=detection`": "tests/cases/coco.yaml",
    "objects has {}; use `layout=detection`": "tests/cases/coco.yaml",
    "has a polygon; use `layout=detection`": "tests/cases/yolo.yaml",
    "if they are texts such as captions, use `label_type=text`": "tests/transforms/test_labels.py",
    "detection_polygons` or `layout=": "tests/cases/yolo.yaml",
    "; use `layout={}`": "tests/cases/yolo.yaml",
    "if it says them, use `split_column={}`": "tests/cases/columns.yaml",
    "extract it, and give the folder or the archives as `input`": "tests/beam_pipelines/test_archive_input.py",
    "if each is a class, use `label_columns=": "tests/cases/tables.yaml",
    "and there is none; use `versioned` or `reuse`": "tests/beam_pipelines/test_class_order.py",
    "which says the splits itself; leave `splits` out": "tests/cases/coco.yaml",
    "or set `allow_outside_root` to read every file": "tests/cases/yolo.yaml",
    "or use `source={}` to read a folder of images": "tests/cases/hints.yaml",
    "the layout has no masks; use `layout=segmentation`": "tests/cases/segmentation.yaml",
    "8 bits hold up to 255; use `mask_bit_depth=16`": "tests/cases/segmentation.yaml",
    "; `array_axes=CHW` or `array_axes=HWC` says it": "tests/beam_pipelines/test_bands.py",
    "which is raw; leave `image_encoding` out, or ask for": "tests/beam_pipelines/test_bands.py",
    "how the names of masks end; leave `mask_suffix` out": "tests/cases/mask_colors.yaml",
    "would be compressed as a photo; use `mask_column=": "tests/cases/several_images.yaml",
    "and these rows have several images; leave it out": "tests/cases/several_images.yaml",
    "only has an effect with `map`; use, for example,": "tests/beam_pipelines/test_map.py",
    "get an intact copy, or use `allow_damaged_containers`": "tests/beam_pipelines/test_damaged_containers.py",
    "or ignore the column with `split_column=`": "tests/cases/columns.yaml",
    "use `requester_pays=PROJECT`": "tests/integration/test_gcs.py",
    "or set the command of Python workers by `environment_type`": "tests/integration/test_flink.py",
    "or set `parallelism` for a job that waits": "tests/integration/test_flink.py",
    "or set `environment_type` and `environment_config`": "tests/beam_pipelines/runners/test_clusters.py",
    "host:port; here set `parallelism`": "tests/beam_pipelines/runners/test_clusters.py",
    "leave `dry_run` out, and use, for example, `limit=100`": "tests/beam_pipelines/test_python_source.py",
    "allow more, or lower `max_image_memory`": "tests/integration/test_memory_kills.py",
    "allow more, or set less with `max_image_memory`": "tests/integration/test_memory_kills.py",
    "or allow a share of the samples with `max_failures`": "tests/beam_pipelines/test_sample_transforms.py",
    "the numbers, and use it as `input` with `image_root`": "tests/cases/lists.yaml",
    "give it in `beam_arguments`, as --{}": "tests/beam_pipelines/settings/test_habits.py",
}
# Cases show a ledger in their own way.
IN_A_LEDGER = ("detection_polygons` or `layout=",)
_IS_HINT = re.compile(
    r"\b(?:say|use|leave|lower|set|give|run|read it)\b[^`;.]{0,60}(?:`[a-z_]+[`=]|--[a-z])|\bor `[a-z_]+="
)


def messages() -> Iterator[tuple[str, str]]:
    """The texts in the code that offer flags, and where they are; `{}` stands for what is filled in."""
    for path, nodes in package_nodes().items():
        left_out: set[ast.AST] = set()
        for node in nodes:
            if isinstance(node, ast.Expr | ast.JoinedStr):  # docstrings, and the parts of a text
                left_out.update(ast.iter_child_nodes(node))
            elif isinstance(node, ast.keyword) and node.arg in ("help", "shown_default"):
                left_out.update(ast.walk(node.value))
        for node in set(nodes) - left_out:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in parts)
            if isinstance(node, ast.JoinedStr | ast.Constant) and _IS_HINT.search(text):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_every_message_that_offers_a_flag_is_followed():
    found = dict(messages())
    assert len(found) > 25
    assert {place: text for place, text in found.items() if not any(one in text for one in FOLLOWED)} == {}
    assert [one for one in FOLLOWED if not any(one in text for text in found.values())] == []


@each("text, path", FOLLOWED.items())
def test_what_follows_a_message_says_it(text, path):
    file = ROOT / path
    assert file.exists()
    if file.suffix == ".yaml" and text not in IN_A_LEDGER:
        assert re.search(".+?".join(map(re.escape, text.split("{}"))), file.read_text().replace("''", "'"))
