"""Names, cells and headers that would control a terminal: no command prints them raw."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from beam_tfrecords import Sample, open_dataset, plan
from tests.core.test_escaping import EVERY, escape, is_shown_safely

# Clears the screen, turns the direction of the line, and begins a line of its own.
HOSTILE = "a\x1b[2J\u202eb\nINJECTED"
SHOWN = r"a\x1b[2J\u202eb\nINJECTED"
NO_BREAK = HOSTILE.replace("\n", "\x9b")
FLAGS = ("--image_size=8", "--max_failures=1", "--direct_num_workers=1")
# A class has no line break, and no space at its ends.
CLASS = f"d{''.join(EVERY.splitlines())}g"
# Files for programs, and for readers that need the names as they are.
FOR_PROGRAMS = (".labels.txt", ".pbtxt", ".parquet", ".idx")


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


def test_a_dry_run_whose_columns_stay_aligned(images, run, tmp_path):
    text = check(run("convert", f"--input={images}", f"--output={tmp_path / 'out'}", *FLAGS, "--dry_run"))
    rows = [line for line in text.splitlines() if line.startswith(("sample ", "cat/", "dog"))]
    assert len(rows) == 4
    assert any(f"cat/{SHOWN}.png" in row for row in rows)
    assert len({row.index("  train") for row in rows[1:]} | {rows[0].index("  split")}) == 1


@pytest.mark.nightly
def test_findings_of_verify_and_a_dataset_with_a_hostile_path(run, images, tmp_path):
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


@pytest.fixture(scope="module")
def every(tmp_path_factory, picture, save, run) -> Path:
    """A dataset with versions whose names, keys, failures, duplicates and notes have every character that controls."""
    root = tmp_path_factory.mktemp("every")
    for number, label in enumerate(("cat", CLASS)):
        save(root / f"in/train/{label}/{number}.png", picture(number, 20, 20))
        save(root / f"in/test/{label}/{EVERY}{number}.png", picture(2, 20, 20))
        (root / f"in/train/{label}/broken{EVERY}{number}.png").write_bytes(b"not an image")
    (root / f"in/train/cat/{EVERY}.txt").write_text("")
    flags = (*FLAGS, "--versioned", f"--json_summary={root / 'summary.json'}")
    check(run("convert", f"--input={root / 'in'}", f"--output={root / 'out'}", *flags, "--name=pets"))
    return root


@pytest.mark.report
def test_every_character_that_controls_is_an_escape_in_every_file_for_people(every):
    files = [path for path in (*(every / "out").rglob("*"), every / "summary.json") if path.is_file()]
    shown = [path for path in files if ".tfrecord-" not in path.name and not path.name.endswith(FOR_PROGRAMS)]
    assert {"README.md", "report.html", "manifest.json", "failures.jsonl", "duplicates.jsonl"} < {
        path.name for path in shown
    }
    # U+001F in the key means that it was not lost on the way.
    assert sum(r"\u001f" in path.read_text() or r"\x1f" in path.read_text() for path in shown) > 5
    assert not [path.name for path in shown if not is_shown_safely(path.read_bytes().decode())]


def test_the_names_themselves_are_as_they_were(every):
    dataset = open_dataset(every / "out")
    assert dataset.class_names == ("cat", CLASS)
    failures = map(json.loads, (Path(dataset.path) / "failures.jsonl").read_text().splitlines())
    assert {one["key"].rpartition("/")[2] for one in failures} == {f"broken{EVERY}{number}.png" for number in (0, 1)}


def test_a_dataset_its_records_and_a_dry_run_in_python(every, tmp_path):
    dataset = open_dataset(every / "out")
    planned = str(plan(input=str(every / "in"), output=str(tmp_path / "out")))
    assert escape(CLASS) in repr(dataset)
    assert escape(CLASS) in planned
    shown = (repr(dataset), repr(dataset.records("train")), repr(Sample(EVERY, label=EVERY)), planned)
    assert all(map(is_shown_safely, shown))


@pytest.mark.parametrize(
    "command", ["status --json --output", "status --output", "inspect --dataset", "verify --dataset"]
)
def test_every_character_in_what_commands_print(every, run, command):
    *words, last = command.split()
    (Path(open_dataset(every / "out").path) / f"pets-{EVERY}").write_text("")
    ran = run(*words, f"{last}={every / 'out'}")
    assert is_shown_safely(ran.out + ran.err)
    if "--json" in words:
        assert json.loads(ran.out)["output"] == str(every / "out")
