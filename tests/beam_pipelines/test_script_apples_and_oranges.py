"""The third of five scripts: apples and oranges in one flat folder, with labels from the file names."""

from __future__ import annotations

import pytest
from PIL import Image

from tests.beam_pipelines.script_checks import by_key, write

pytestmark = pytest.mark.whole_build


def test_images_of_one_flat_folder_have_the_labels_and_pixels_of_the_script(tmp_path, picture, save, build, read):
    root = tmp_path / "fruit"
    for number in range(1, 10):
        save(root / f"apple{number:02d}.jpg", picture(number, 50 + number, 64))
    for number in range(1, 8):
        save(root / f"orange{number:02d}.jpg", picture(50 + number, 64, 40 + number))
    spec = write(
        tmp_path / "fruit.yaml",
        """\
label_pattern: (?P<label>apple|orange)
class_names: [apple, orange]
image_size: 32x32
resize_mode: exact
image_encoding: raw
codec: exact
layout: {image: image.pixels, label: label.index}
""",
    )
    records = by_key(read(build(tmp_path / "out", f"--input={root}", f"--spec={spec}"), "train"))
    expected = {}
    for path in root.iterdir():
        label = 0 if "apple" in path.name else 1
        expected[path.name] = {"image": [Image.open(path).resize((32, 32)).tobytes()], "label": [label]}
    assert len(expected) == 16
    assert {key: record.values for key, record in records.items()} == expected
