"""A newcomer: the wheel, an empty environment and folder, README.md, and the tutorial to a trained model.

`out/newcomer.txt` is what the newcomer reads and sees. Read it after a change of these pages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PHOTOS
from tests.core.commands import install_release, released_as
from tests.docs.following import Follower
from tests.docs.pages import PROJECT, Passage, split_page
from tests.docs.tutorial_notebook import NOTEBOOK, PAGE
from tests.test_installation import copy_sources

TRANSCRIPT = PROJECT / "out" / "newcomer.txt"
PAGES = (PROJECT / "README.md", PAGE, PROJECT / "docs" / "troubleshooting.md")
# TensorFlow alone is downloaded and unpacked in minutes.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]


class Newcomer:
    """Types what pages say into one shell."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._steps: list[str] = []

    def reads(self, text: str) -> None:
        self._add("text", text, "cat {file}")

    def types(self, text: str, *, exit_code: int = 0) -> None:
        text = install_release(text)
        shown = "\n".join(f"$ {line}" if not line.startswith(" ") else line for line in text.splitlines())
        self._add("text", shown + "\n", "cat {file}")
        self._add("sh", text, "source {file}", exit_code=exit_code)

    def runs_python(self, text: str) -> None:
        self._add("py", text, "cat {file}; echo; python {file}")

    def saves(self, text: str, name: str) -> None:
        self._add("text", text, f"cat {{file}}; cp {{file}} {name}")

    def ends(self) -> str:
        """Runs all, in one shell; returns what it shows, and fails with it if a step does."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        environment |= {"HOME": str(self.home), "PIP_QUIET": "1"}
        script = self.home / ".typed" / "all.sh"
        script.write_text("\n".join(self._steps))
        ran = subprocess.run(
            ["bash", script],
            cwd=self.home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout[-5000:]
        return ran.stdout

    def _add(self, kind: str, text: str, step: str, *, exit_code: int = 0) -> None:
        file = self.home / ".typed" / f"{len(self._steps):03}.{kind}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        self._steps.append(f"{step.format(file=file)}; [ $? = {exit_code} ] || exit 99")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Iterator[Path]:
    """A folder with nothing but the newcomer's own photos; commands that install take the wheel of the clone."""
    home, clone, wheels = map(tmp_path_factory.mktemp, ("home", "clone", "wheels"))
    copy_sources(clone)
    subprocess.run([sys.executable, "-m", "venv", clone / "venv"], check=True)
    pip = [clone / "venv/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", f"--wheel-dir={wheels}", clone], check=True)
    (wheel,) = wheels.iterdir()
    shutil.rmtree(clone)
    shutil.copytree(PHOTOS, home / "photos")
    with released_as(wheel):
        yield home
    shutil.rmtree(home / "tfrecords", ignore_errors=True)


def test_a_newcomer_gets_from_the_wheel_to_a_trained_model(home):
    newcomer = Newcomer(home)
    printed: list[str] = []
    for page in PAGES:
        printed += follow(newcomer, page)
        # README.md and the tutorial both begin with `demo`, which writes a new folder.
        newcomer.types("rm -rf demo")
    transcript = newcomer.ends()
    TRANSCRIPT.parent.mkdir(exist_ok=True)
    TRANSCRIPT.write_text(transcript.replace(str(home), "/home/you"), encoding="utf-8")
    shown = Follower(PAGE, home)
    assert [line for line in printed if not shown.has_printed(line, transcript)] == []
    assert {path.name for path in home.iterdir()} >= {"model.keras", "model_jax.keras"}


def test_the_notebook_runs_and_prints_what_it_shows(home, tmp_path):
    """In the environment of the newcomer, which the test above makes."""
    expected = json.loads(NOTEBOOK.read_text())["cells"]
    shutil.copy(NOTEBOOK, tmp_path)
    newcomer = Newcomer(tmp_path)
    newcomer.types(f"source {home}/tfrecords/bin/activate")
    newcomer.types("pip install --quiet nbclient ipykernel")
    newcomer.types(f"jupyter execute --inplace {NOTEBOOK.name}")
    newcomer.ends()
    shown = Follower(PAGE, tmp_path)
    for before, after in zip(expected, json.loads((tmp_path / NOTEBOOK.name).read_text())["cells"], strict=True):
        text = "".join(word for output in after.get("outputs", ()) for word in output.get("text", ()))
        # Commands have a terminal there: colors, and a bar that lines replace.
        text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r", "\n")
        lines = [line for output in before.get("outputs", ()) for line in output["text"]]
        assert [line for line in lines if not shown.has_printed(line, text)] == [], text
    assert (tmp_path / "model.keras").is_file()


def follow(newcomer: Newcomer, page: Path) -> Iterator[str]:
    """Types the passages of a page; returns the lines that they should print."""
    for prose, passage in split_page(page):
        if passage is None or not is_typed(passage):
            continue
        newcomer.reads(prose)
        if "KERAS_BACKEND" in passage.text:
            newcomer.types("".join(re.findall(r"`(pip install [^`]* jax [^`]*)`", prose)))
        if passage.prints:
            yield from passage.text.splitlines()
        elif passage.language == "bash":
            newcomer.types(passage.text, exit_code=passage.exit_code)
        elif passage.language == "python":
            newcomer.runs_python(passage.text)
        elif passage.language == "yaml":
            newcomer.saves(passage.text, passage.text.split()[1])
        else:
            newcomer.reads(passage.text)


def is_typed(passage: Passage) -> bool:
    if passage.page.name == "troubleshooting.md":
        return "test_newcomer" in (passage.reason or "")
    return passage.reason is None or "test_newcomer" in passage.reason
