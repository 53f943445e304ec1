"""`report.html` in a real browser: no requests, no errors, axe-core; the code they show."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from tests.annotated_inputs import save_pictures, write_coco

SCRIPT = "<script>alert(1)</script>"
AXE = Path(__file__).parents[2] / ".cache/axe-core/node_modules/axe-core/axe.min.js"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, photos, build) -> Path:
    """Photos of two classes, one of which would be a script."""
    folder = tmp_path_factory.mktemp("report")
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        writer.writerows([path, SCRIPT] for path in sorted((photos / "cat").iterdir()))
        writer.writerows([path, "flower"] for path in sorted((photos / "flower").iterdir()))
        writer.writerow([folder / "missing.jpg", SCRIPT])
    flags = ["--image_column=path", "--label_column=label", "--allow_outside_root", "--name=flowers"]
    flags += ["--image_size=128", "--resize_mode=crop", "--max_failures=0.5", "--splits=train=0.7,test=0.3"]
    return build(folder / "out", f"--input={folder / 'labels.csv'}", *flags)


@pytest.fixture(scope="module")
def versions(tmp_path_factory, photos, build) -> Path:
    """All sections of a report: a second version, with failures, leaks, near-duplicates and a guard that trips."""
    folder = tmp_path_factory.mktemp("versions")
    shutil.copytree(photos, folder / "in")
    shutil.copy(photos / "cat/cat_01.jpg", folder / "in/flower/same.jpg")
    Image.open(photos / "cat/cat_02.jpg").save(folder / "in/flower/near.jpg", quality=60)
    (folder / "in/cat/broken.jpg").write_bytes(b"none")
    flags = [f"--input={folder / 'in'}", "--image_size=128", "--near_duplicates=4", "--max_failures=0.5"]
    flags += ["--splits=train=0.5,test=0.5", "--versioned"]
    build(folder / "out", *flags)
    shutil.copytree(photos / "cat", folder / "in/lion")
    build(folder / "out", *flags, "--accept=all")
    return folder / "out" / (folder / "out/LATEST").read_text().strip()


@pytest.fixture(scope="module")
def objects(tmp_path_factory, build) -> Path:
    """Pictures with boxes."""
    folder = tmp_path_factory.mktemp("objects")
    save_pictures(folder / "images")
    words = [f"--input={write_coco(folder / 'objects.json')}", f"--image_root={folder / 'images'}"]
    return build(folder / "out", *words, "--layout=detection")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_whole_and_asks_for_nothing(hostile, browser, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    errors, requests = [], []
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message) or dialog.dismiss())
    page.on("request", lambda request: requests.append(request.url))
    page.goto((hostile / "report.html").as_uri())
    assert errors == []
    assert [url for url in requests if not url.startswith("data:")] == [(hostile / "report.html").as_uri()]
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    assert page.locator("img").count() == 12 + 4
    assert page.locator("script").count() == 0
    assert page.get_by_role("heading", name=SCRIPT).is_visible()
    # Nothing is wider than the screen; what is scrolls by itself.
    assert page.evaluate("document.documentElement.scrollWidth") == width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 64) == (scheme == "dark")
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_failures_are_on_the_first_screen_and_wide_tables_scroll_by_themselves(versions, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto((versions / "report.html").as_uri())
    box = page.get_by_text("could not be converted: not_an_image 1.").bounding_box()
    assert box["y"] + box["height"] < 844
    page.locator("dl.figures").get_by_text("failures").click(force=True)  # the link covers it
    assert page.url.endswith("#failures")
    hidden = page.evaluate("[...document.querySelectorAll('.scroll')].map(one => one.scrollWidth - one.clientWidth)")
    assert len(hidden) == 3
    assert all((one > 0) == (width == 390) for one in hidden)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("hostile", "report.html"),
        ("versions", "report.html"),
        ("objects", "report.html"),
    ],
)
def test_axe_finds_no_fault(dataset, name, browser, width, scheme, request):
    if not AXE.exists():
        pytest.skip("needs axe-core: tests/integration/install.sh")
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    errors = []
    page.on("console", lambda message: errors.append(message.text))
    page.goto((request.getfixturevalue(dataset) / name).resolve().as_uri())
    assert errors == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 20
    assert [f"{one['id']}: {one['nodes'][0]['failureSummary']}" for one in found["violations"]] == []
    context.close()


@pytest.mark.nightly
@pytest.mark.parametrize("title", ["TensorFlow: tf.data", "TensorFlow Datasets", "PyTorch", "JAX: Grain"])
@pytest.mark.parametrize("name", ["hostile", "objects"])
def test_the_code_that_it_shows_runs(name, request, title):
    dataset = open_dataset(request.getfixturevalue(name))
    # In a process of its own: TensorFlow and PyTorch in one end in a crash.
    # README.md of the dataset has the same.
    shown = re.search(rf"^{title}:\n\n```python\n(.*?)```", Path(dataset.path, "README.md").read_text(), re.M | re.S)[1]
    code = shown.replace(f"FOLDER = {dataset.name!r}", f"FOLDER = {dataset.path!r}")
    subprocess.run([sys.executable, "-c", code], check=True)
