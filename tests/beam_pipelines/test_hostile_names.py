"""Names, cells and headers that would control a terminal: no command prints them raw."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.terminal import escape

# Clears the screen, turns the direction of the line, and begins a line of its own.
HOSTILE = "a\x1b[2J\u202eb\nINJECTED"
SHOWN = r"a\x1b[2J\u202eb\nINJECTED"
NO_BREAK = HOSTILE.replace("\n", "\x9b")
FLAGS = ("--image_size=8", "--max_failures=1", "--direct_num_workers=1")


def check(ran, *, code: int = 0) -> str:
    """Checks that a command printed nothing raw; returns what it printed."""
    text = ran.out + ran.err
    assert ran.code == code, text
    assert all(line.isprintable() for line in text.split("\n"))
    assert not [line for line in text.split("\n") if line.startswith("INJECTED")]
    return text


@pytest.fixture(scope="module")
def images(tmp_path_factory, picture, save) -> Path:
    """Two classes, one of them with a hostile name; a hostile file in each, one of them broken, and a skipped one."""
    root = tmp_path_factory.mktemp("names") / "images"
    for number, label in enumerate(("cat", f"dog{NO_BREAK}")):
        save(root / label / f"{HOSTILE}.png", picture(number, 20, 20))
    (root / "cat" / f"broken{HOSTILE}.png").write_bytes(b"not an image")
    (root / "cat" / f"{HOSTILE}.txt").write_text("")
    return root


@pytest.fixture(scope="module")
def built(images, run):
    return images.parent / "out", run("convert", f"--input={images}", f"--output={images.parent / 'out'}", *FLAGS)


def test_the_summary_of_a_build(built):
    text = check(built[1])
    assert rf"dog{escape(NO_BREAK)} 1" in text
    assert rf"for example cat/broken{SHOWN}.png" in text
    assert rf"skipped: 1 .txt (cat/{SHOWN}.txt)" in text


def test_examples_and_classes_that_inspect_shows(built, run):
    text = check(run("inspect", f"--dataset={built[0]}"))
    assert rf"(dog{escape(NO_BREAK)})" in text
    assert rf"{SHOWN}.png" in text


def test_a_dry_run_whose_columns_stay_aligned(images, run, tmp_path):
    text = check(run("convert", f"--input={images}", f"--output={tmp_path / 'out'}", *FLAGS, "--dry_run"))
    rows = [line for line in text.splitlines() if line.startswith(("sample ", "cat/", "dog"))]
    assert len(rows) == 4
    assert any(f"cat/{SHOWN}.png" in row for row in rows)
    assert len({row.index("  train") for row in rows[1:]} | {rows[0].index("  split")}) == 1


def test_findings_of_verify_and_a_dataset_with_a_hostile_path(built, run, images, tmp_path):
    flags = (f"--output={tmp_path / HOSTILE}", *FLAGS, "--name=pets")
    check(run("convert", f"--input={images}", *flags))
    (tmp_path / HOSTILE / f"pets-{HOSTILE}").write_text("")
    text = check(run("verify", f"--dataset={tmp_path / HOSTILE}", "--direct_num_workers=1"), code=1)
    assert rf"pets-{SHOWN}: does not belong to this build" in text
    assert SHOWN in check(run("status", f"--output={tmp_path / HOSTILE}"))


@pytest.mark.parametrize("command", ["convert --output=out --input", "verify --dataset", "inspect --dataset", HOSTILE])
def test_errors(command, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where they are started, `out` may be there, as after `make demo`
    *words, last = command.split(" ")
    assert SHOWN in check(run(*words, f"{last}={HOSTILE}"), code=2)


def test_headers_and_cells_of_a_table(run, tmp_path, picture, save):
    for number in (1, 2):
        save(tmp_path / f"{number}.png", picture(number, 20, 20))
    rows = [("1.png", "cat"), ("2.png", "cow"), (f"{HOSTILE}.png", f"dog{NO_BREAK}")]
    for name, column in (("headers", f"x{HOSTILE}"), ("cells", "image")):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([(column, "label"), *rows])
    flags = (f"--output={tmp_path / 'out'}", *FLAGS)
    assert SHOWN in check(run("convert", f"--input={tmp_path / 'headers.csv'}", *flags), code=2)
    assert SHOWN in check(run("convert", f"--input={tmp_path / 'cells.csv'}", *flags))


def test_a_guard_that_names_a_class(run, images, tmp_path, picture, save):
    save(tmp_path / "pets" / "cat" / "1.png", picture(1, 20, 20))
    save(tmp_path / "pets" / "dog" / "1.png", picture(2, 20, 20))
    words = ("convert", f"--input={tmp_path / 'pets'}", f"--output={tmp_path / 'out'}", *FLAGS, "--versioned")
    check(run(*words))
    save(tmp_path / "pets" / NO_BREAK / "1.png", picture(3, 20, 20))
    assert escape(NO_BREAK) in check(run(*words), code=3)


@pytest.mark.parametrize(
    "text", ["写真", "Äpfel & Birnen", "\u0645\u06cc\u200c\u062e", "👩\u200d🚀", "a\u3000b", "C:\\new"]
)
def test_ordinary_text_is_left_as_it_is(text):
    assert escape(text) == text


def test_every_character_that_controls_is_escaped():
    for number in (*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x2028, 0x202E, 0x2066, 0xFEFF, 0xDCFF):
        escaped = escape(f"a{chr(number)}b")
        assert escaped.isascii(), hex(number)
        assert escaped.isprintable(), hex(number)
