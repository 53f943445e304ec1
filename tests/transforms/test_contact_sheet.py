"""The picture that the demo makes of its first batch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from PIL import Image

from transforms.reading.__main__ import draw_contact_sheet


def test_every_image_is_on_the_sheet_with_its_label_below():
    images = np.random.default_rng(0).integers(0, 256, (6, 224, 224, 3), dtype=np.uint8)
    sheet = np.asarray(draw_contact_sheet(images, ["cat", "dog", "cat", "cat", "a dog", "cat"]))
    assert sheet.shape == (2 * (224 + 32) + 12, 4 * (224 + 12) + 12, 3)
    for number, pixels in enumerate(images):
        top, left = 12 + number // 4 * 256, 12 + number % 4 * 236
        assert np.array_equal(sheet[top : top + 224, left : left + 224], pixels)
        assert sheet[top + 224 : top + 244, left : left + 224].min() < 100


def test_the_demo_writes_the_first_batch_into_the_folder_of_the_dataset(photos, tmp_path, build):
    out = build(tmp_path / "out", f"--input={photos}", "--image_size=32")
    ran = subprocess.run([sys.executable, "-m", "transforms.reading", out], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"its images: {out}/first_batch.png" in ran.stdout
    with Image.open(out / "first_batch.png") as image:
        assert image.size == (956, 524)
