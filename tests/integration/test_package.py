"""The wheel: its metadata, and what it does in empty environments outside the clone, on each Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from tests.integration.servers.processes import PROJECT

MINORS = (10, 11, 12, 13, 14)
THIS = sys.version_info.minor
# TensorFlow has no wheels for later ones.
LAST_WITH_TENSORFLOW = 13
# What the lowest versions are most likely to break.
OF_LOWEST = (
    *("beam_pipelines/test_convert_output.py", "beam_pipelines/test_run_summary.py", "reading/test_loading.py"),
    *("core/test_tfrecord.py", "beam_pipelines/test_sink.py", "core/images/test_exact_codec.py"),
    *("core/images/test_fast_codec.py", "core/test_parquet_pages.py"),
    *("core/test_private_names.py", "core/stores/test_private_names.py"),
)
UV = PROJECT / ".venv-dist/bin/uv"
READ = """
import sys, beam_tfrecords
assert beam_tfrecords.__file__.startswith(sys.prefix), beam_tfrecords.__file__
records = beam_tfrecords.open_dataset("out")["train"]
print(len(records), records[0]["image"].shape)
"""
LOAD = """
from beam_tfrecords import load
print(sum(len(batch["label"]) for batch in load("out", "train", batch_size=4)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of `make dist`, which checks it and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(["make", "dist", f"DIST={folder}"], cwd=PROJECT, check=True)
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (path,) = folder.glob("*.whl")
    return path


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(files.read(name))


def test_links_of_the_long_description_lead_to_files_of_the_release(wheel):
    metadata = metadata_of(wheel)
    # Links are relative until the repository has an address.
    root = f"{metadata['Home-page']}/(?:blob|raw)/v{metadata['Version']}/" if metadata["Home-page"] else "(?!https://)"
    text = str(metadata.get_payload())
    links = re.findall(r'(?:\]\(|\b(?:href|src|srcset)=")([^)"#\s]+)', text)
    paths = [path for link in links for path in re.findall(f"^{root}(.*)$", link)]
    assert paths
    assert [path for path in paths if not (PROJECT / path).exists()] == []
    assert not metadata["Home-page"] or [link for link in links if not link.startswith("https://")] == []


def test_the_classifiers_name_the_tested_versions_of_python(wheel):
    classifiers = metadata_of(wheel).get_all("Classifier") or []
    assert [int(found[1]) for word in classifiers if (found := re.search(r":: 3\.(\d+)$", word))] == list(MINORS)


def python(minor: int) -> str:
    """Path of a Python of this machine, of pyenv or in PATH."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))]
    for path in (*roots[0].glob(f"versions/3.{minor}.*/bin/python"), shutil.which(f"python3.{minor}")):
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(path)
    pytest.skip(f"needs Python 3.{minor}")


class Environment:
    """An empty environment outside the clone, and a working folder in it."""

    def __init__(self, folder: Path, minor: int):
        self._folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        self._variables: Mapping[str, str] = {
            **kept,
            "VIRTUAL_ENV": str(folder / "environment"),
            "PATH": f"{folder / 'environment/bin'}{os.pathsep}{os.environ['PATH']}",
        }
        self.run(UV, "venv", "--quiet", f"--python={python(minor)}", folder / "environment")

    def install(self, *words: str, lowest: bool) -> None:
        """Installs wheels alone, with the lowest versions that they allow or with the newest."""
        resolution = "lowest-direct" if lowest else "highest"
        (self._folder / "required.txt").write_text("\n".join(words))
        flags = ["--only-binary=:all:", f"--resolution={resolution}"]
        self.run(UV, "pip", "install", "--quiet", *flags, f"--requirement={self._folder / 'required.txt'}")

    def run(self, *words: str | Path) -> str:
        ran = subprocess.run(words, cwd=self.work, env=self._variables, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


def requirements_of(wheel: Path, *, extra: str = "") -> list[str]:
    """What the wheel needs, or what one of its extras adds."""
    words = metadata_of(wheel).get_all("Requires-Dist") or []
    pairs = [(word.partition(";")[0], "".join(re.findall(r'extra == "(\w+)"', word))) for word in words]
    return [name for name, of in pairs if of == extra]


@pytest.mark.parametrize("resolution", ["newest", pytest.param("lowest", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "minor", [THIS, *(pytest.param(minor, marks=pytest.mark.nightly) for minor in MINORS if minor != THIS)]
)
def test_the_wheel_converts_verifies_and_reads_in_an_empty_environment(wheel, tmp_path, minor, resolution):
    extras = ["tensorflow"] if minor <= LAST_WITH_TENSORFLOW else []
    environment = Environment(tmp_path, minor)
    direct = [word for extra in ("", *extras) for word in requirements_of(wheel, extra=extra)]
    environment.install(str(wheel), *direct, lowest=resolution == "lowest")
    photos = PROJECT / "tests/data/photos"
    flags = ["--output=out", "--image_size=64", "--resize_mode=crop", "--splits=train=0.8,validation=0.2"]
    environment.run("beam-tfrecords", "convert", f"--input={photos}", *flags)
    assert "OK: 42 records" in environment.run("beam-tfrecords", "verify", "--dataset=out")
    assert "records" in environment.run("beam-tfrecords", "inspect", "--dataset=out")
    assert environment.run("python", "-c", READ) == "36 (64, 64, 3)\n"
    assert not extras or environment.run("python", "-c", LOAD) == "36\n"


@pytest.mark.nightly
@pytest.mark.parametrize("minor", [MINORS[0], LAST_WITH_TENSORFLOW])
def test_the_wheel_passes_tests_with_the_lowest_versions(wheel, tmp_path, minor):
    environment = Environment(tmp_path, minor)
    direct = [
        word for extra in ("", "tensorflow", "gcp", "aws", "test") for word in requirements_of(wheel, extra=extra)
    ]
    environment.install(str(wheel), *direct, lowest=True)
    for name in ("tests", "docs", "pyproject.toml"):
        copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
        copy(PROJECT / name, environment.work / name)
    environment.run("python", "-m", "pytest", *(f"tests/{path}" for path in OF_LOWEST))


@pytest.mark.nightly
@pytest.mark.parametrize("platform", ["x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin"])
@pytest.mark.parametrize("minor", MINORS)
def test_the_program_and_its_extras_come_as_wheels(wheel, tmp_path, minor, platform):
    required = [*requirements_of(wheel), *requirements_of(wheel, extra="all")]
    if minor > LAST_WITH_TENSORFLOW:
        required = [word for word in required if not word.startswith("tensorflow")]
    # It has no wheel for Linux on ARM: see setup.py.
    built = ["--no-binary=cykooz-resizer"] if platform == "aarch64-manylinux_2_28" else []
    (tmp_path / "required.txt").write_text("\n".join(required))
    flags = ["--only-binary=:all:", *built, f"--python-version=3.{minor}", f"--python-platform={platform}"]
    subprocess.run(
        [UV, "pip", "compile", "--quiet", *flags, tmp_path / "required.txt"], check=True, capture_output=True
    )
