"""What is installed: one package, complete, from a tree with or without the links at its top level."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILT_FROM = ("setup.py", "pyproject.toml", "README.md", "beam_tfrecords")


def copy_sources(tree: Path) -> None:
    """Copies what the package is built from to a folder, as from an archive of a system that has no links."""
    for name in BUILT_FROM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder into which a tree without links is built."""
    tree, target = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("installed")
    copy_sources(tree)
    command = [sys.executable, "setup.py", "--quiet", "build", f"--build-lib={target}"]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    return target


def test_every_module_and_file_is_installed_in_one_package(installed):
    def names(folder: Path) -> set[Path]:
        files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        return {path for path in files if path.suffix != ".pyc"}

    assert names(installed / "beam_tfrecords") == names(ROOT / "beam_tfrecords")
    assert [path.name for path in installed.iterdir()] == ["beam_tfrecords"]


def test_what_is_installed_is_imported_without_the_repository(installed):
    program = "from beam_tfrecords.beam_pipelines.commands import cli; print(cli.__file__)"
    command = [sys.executable, "-P", "-c", program] if sys.version_info >= (3, 11) else [sys.executable, "-c", program]
    run = subprocess.run(
        command, cwd=installed, env={"PYTHONPATH": str(installed)}, check=True, capture_output=True, text=True
    )
    assert run.stdout.startswith(str(installed))


@pytest.mark.nightly
@pytest.mark.parametrize("checker", ["mypy"])
def test_an_editable_install_shows_its_types(checker, tmp_path):
    # Of two modules: all take ten seconds.
    modules = "beam_tfrecords,beam_tfrecords.beam_pipelines,beam_tfrecords.beam_pipelines.build.build"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nfollow_imports=skip\n[mypy-{modules}]\nfollow_imports=normal\n")
    (tmp_path / "mine.py").write_text("from beam_tfrecords import build\n\nbuild(quiet=1)\n")
    found = subprocess.run([sys.executable, "-m", checker, "mine.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "arg-type" in found.stdout or "call-arg" in found.stdout or "call-overload" in found.stdout, found.stdout
