"""Takes the picture of a report that README.md shows: docs/report.png. `make screenshot` calls it."""

from __future__ import annotations

import io
import pathlib
import shutil
import tempfile

from PIL import Image
from playwright.sync_api import sync_playwright

from beam_tfrecords import build

_PROJECT = pathlib.Path(__file__).resolve().parent.parent
_PICTURE = _PROJECT / "docs" / "report.png"
# Down to the end of the second class.
_WIDTH, _CLASSES = 900, 2
# A palette makes it a third as large, and the photos are small.
_COLORS = 128


def main() -> None:
    """Builds the photos of `make demo`, and photographs the beginning of their report."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = build(
            input=_PROJECT / "tests/data/photos",
            output=pathlib.Path(folder, "photos"),
            name="photos",
            image_size=224,
            splits="train=0.8,validation=0.2",
            stratify=True,
            quiet=True,
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": _WIDTH, "height": _WIDTH}, color_scheme="light")
            page.goto(pathlib.Path(dataset.path, "report.html").as_uri())
            last = page.locator("section.class").nth(_CLASSES - 1).bounding_box()
            assert last
            size = {"width": _WIDTH, "height": last["y"] + last["height"] + 16}
            taken = page.screenshot(clip={"x": 0, "y": 0, **size})
            browser.close()
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(_COLORS).save(_PICTURE, optimize=True)
    print(f"{_PICTURE.relative_to(_PROJECT)}: {_PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
