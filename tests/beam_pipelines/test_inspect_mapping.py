"""`inspect --mapping` shows what a mapping finds in an input."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from tests.conftest import run_command


@pytest.fixture
def documents(tmp_path):
    """A folder of two photos and their documents, of which the second has a box."""
    for name, objects in (("a", []), ("b", [{"kind": "cat", "left": 5, "top": 10, "width": 20, "height": 15}])):
        Image.new("RGB", (40, 30), "blue").save(tmp_path / f"{name}.png")
        (tmp_path / f"{name}.json").write_text(json.dumps({"file": f"{name}.png", "things": objects}))
    (tmp_path / "mine.yaml").write_text(
        "documents: '*.json'\nimage: file\nobjects: things\nclass: kind\nbox: [left, top, width, height]\nform: xywh\n"
    )
    return tmp_path


def test_each_expression_is_shown_with_what_it_finds(documents):
    ran = run_command("inspect", documents, f"--mapping={documents / 'mine.yaml'}")
    assert ran.code == 0
    assert "`image: file` finds 'a.png'" in ran.out
    assert "`objects: things` finds '[]'" in ran.out
    assert "sample b.png\n  cat: 5, 10, 25, 25" in ran.out


def test_the_first_image_with_objects_is_drawn(documents):
    ran = run_command("inspect", documents, f"--mapping={documents / 'mine.yaml'}", f"--save={documents / 'drawn.png'}")
    assert ran.code == 0
    with Image.open(documents / "drawn.png") as drawn:
        times = drawn.width // 40
        # The edge of the box is not blue, and the image beside it is.
        assert drawn.getpixel((25 * times - 1, 20 * times)) != (0, 0, 255)
        assert drawn.getpixel((35 * times, 20 * times)) == (0, 0, 255)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--mapping=labelmee"], "unknown_mapping"),
        (["--mapping=kitti"], "not_found"),
        (["--mapping=via"], "unfit_mapping"),
        (["--mapping=labelme", "--split=train"], "conflicting_settings"),
    ],
)
def test_what_cannot_be_shown_is_refused(documents, flags, code):
    ran = run_command("inspect", documents, *flags)
    assert ran.code == 2
    assert ran.refusal.code == code
