"""Takes the pictures of reports that README.md and docs/tutorial.md show. `make screenshot` calls it."""

from __future__ import annotations

import io
import os
import pathlib
import shutil
import sys
import tempfile

from PIL import Image
from playwright.sync_api import sync_playwright

from beam_tfrecords import open_dataset
from beam_tfrecords.beam_pipelines.commands.demo import demo

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from tests.docs.following import Follower
from tests.docs.pages import passages_of

_PROJECT = pathlib.Path(__file__).resolve().parents[1]
# Down to the end of the second class.
_WIDTH, _CLASSES = 900, 2
# A palette makes it a third as large, and the photos are small.
_COLORS = 128


def main() -> None:
    """Builds the datasets of `beam-tfrecords demo` and of the tutorial, and photographs their reports."""
    with tempfile.TemporaryDirectory() as folder:
        _photograph(_build_demo(folder), _PROJECT / "docs" / "report.png")
        _photograph(_follow_tutorial(folder), _PROJECT / "docs" / "tutorial_report.png")


def _build_demo(folder: str) -> str:
    demo([str(pathlib.Path(folder, "sample"))])
    return str(pathlib.Path(folder, "sample", "dataset"))


def _follow_tutorial(folder: str) -> str:
    """Follows the tutorial to its first version."""
    page = _PROJECT / "docs" / "tutorial.md"
    verify = next(one for one in passages_of(page) if one.text.startswith("beam-tfrecords verify"))
    os.chdir(folder)
    Follower(page, pathlib.Path(folder)).run_to(verify)
    return open_dataset("data").path


def _photograph(dataset: str, picture: pathlib.Path) -> None:
    """Photographs the beginning of a dataset's report."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": _WIDTH, "height": _WIDTH}, color_scheme="light")
        page.goto(pathlib.Path(dataset, "report.html").resolve().as_uri())
        last = page.locator("section.class").nth(_CLASSES - 1).bounding_box()
        assert last
        size = {"width": _WIDTH, "height": last["y"] + last["height"] + 16}
        taken = page.screenshot(full_page=True, clip={"x": 0, "y": 0, **size})
        browser.close()
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(_COLORS).save(picture, optimize=True)
    print(f"{picture.relative_to(_PROJECT)}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
