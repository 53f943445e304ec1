"""`make demo` and `make test`: what they install, and what the demo builds."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def commands_of(target: str, **variables: object) -> list[str]:
    """The commands that make would run where nothing is installed yet."""
    words = [
        "make",
        "--dry-run",
        "--no-print-directory",
        target,
        *(f"{name}={value}" for name, value in variables.items()),
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    return done.stdout.replace("\\\n", " ").splitlines()


def installed_by(target: str, folder: Path) -> list[str]:
    """What pip would install, one after the other."""
    return re.findall(r"pip install .*'(.*)'$", "\n".join(commands_of(target, VENV=folder)), re.MULTILINE)


def test_the_demo_installs_the_program_alone_and_the_tests_add_theirs(tmp_path):
    assert installed_by("demo", tmp_path) == ["."]
    assert installed_by("unit", tmp_path) == [".", ".[test]"]
    (tmp_path / ".program").touch()
    os.utime(tmp_path / ".program", (2**32, 2**32))
    assert installed_by("demo", tmp_path) == []
    assert installed_by("unit", tmp_path) == [".[test]"]


def test_what_is_installed_is_said_first(tmp_path):
    said = next(line for line in commands_of("demo", VENV=tmp_path) if line.startswith("echo"))
    assert re.search(r"Installing the program and its libraries \(\d+ MB; .*\)", said)


def test_both_splits_of_the_demo_have_every_class(tmp_path, run, monkeypatch):
    monkeypatch.chdir(ROOT)
    (command,) = [line for line in commands_of("demo", DEMO_OUT=tmp_path / "out") if " convert " in line]
    assert run(*shlex.split(command)[1:]).code == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    classes = {path.name for path in (ROOT / "tests/data/photos").iterdir() if path.is_dir()}
    assert {split: set(entry["classes"]) for split, entry in manifest["splits"].items()} == {
        "train": classes,
        "validation": classes,
    }
