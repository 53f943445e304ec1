"""Functions of the user on runners of clusters: what the documentation shows, with the bytes of the local runner."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.inputs import make_inputs
from tests.docs.pages import PROJECT, passages_of
from tests.integration.cluster_builds import PROGRAM, Hashes, hashes
from tests.integration.servers import flink, processes

pytestmark = pytest.mark.nightly

PAGE = PROJECT / "docs" / "your_own_code.md"
# Its modules are those of nobody but the launcher.
STEPS = {
    "transforms.py": """\
from importlib.machinery import PathFinder

from marks import change


def clean(sample):
    assert PathFinder.find_spec("marks") is None, "the worker finds the module by itself"
    return sample.replace(image=255 - sample.image, label=change(sample.label))
""",
    "marks.py": "def change(label):\n    return label.upper()\n",
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working folder of the launcher: the inputs of the page, and its files."""
    folder = tmp_path_factory.mktemp("work")
    make_inputs(folder)
    for name, text in STEPS.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module", params=["prism", "spark", "flink"])
def on_runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The flags of a runner."""
    if request.param == "prism":
        yield ["--runner=PrismRunner", f"--prism_location={processes.binary('prism')}"]
    elif request.param == "spark":
        yield ["--runner=SparkRunner", "--spark_master_url=local[2]"]
    else:
        with flink.flink_cluster(tmp_path_factory.mktemp("flink")) as cluster:
            yield ["--runner=FlinkRunner", f"--flink_master={cluster.master}"]


def build_all(work: Path, out: Path, flags: list[str]) -> dict[str, Hashes]:
    """Builds what the page builds, and with functions of a file called `transforms.py`; name -> hashes."""
    module, command, script, rows, of_rows, _, pipeline, of_pipeline, *_ = passages_of(PAGE)
    # What a function opens itself is found where the worker runs.
    texts = {"my_steps": module, "my_rows": rows, "my_pipeline": pipeline}
    for name, passage in texts.items():
        text = passage.text.replace('"photos.db"', repr(str(work / "photos.db")))
        (work / f"{name}.py").write_text(text.replace('"paths.parquet"', repr(str(work / "paths.parquet"))))
    (work / "script.py").write_text(
        "import sys\n" + script.text.replace("map=upper_half)", "map=upper_half, beam_arguments=sys.argv[1:])")
    )
    classes = ",".join(sorted(path.name.upper() for path in (work / "photos").iterdir()))
    commands = {
        "views": [PROGRAM, *shlex.split(command.text)[1:]],
        "halves": [sys.executable, "script.py"],
        "marked": [
            *(PROGRAM, "convert", "--input=photos", "--output=out/marked"),
            *("--map=transforms:clean", f"--class_names={classes}"),
        ],
        "rows": [PROGRAM, *shlex.split(of_rows.text)[1:]],
        "piped": [PROGRAM, *shlex.split(of_pipeline.text)[1:]],
    }
    shutil.rmtree(work / "out", ignore_errors=True)
    for name, words in commands.items():
        ran = subprocess.run([*words, *flags], cwd=work, capture_output=True, text=True)
        assert ran.returncode == 0, (name, ran.stderr)
    (work / "out").rename(out)
    return {name: hashes(out / name) for name in commands}


@pytest.fixture(scope="module")
def expected(work: Path) -> dict[str, Hashes]:
    """What the local runner makes."""
    return build_all(work, work / "local", [])


def test_functions_reach_the_workers_of_every_runner(work, on_runner, expected, tmp_path):
    assert build_all(work, tmp_path / "out", on_runner) == expected
