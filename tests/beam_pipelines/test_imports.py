"""Imports that commands do without: TensorFlow when they write, everything heavy when they refuse a request."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

PHOTOS = Path(__file__).parents[1] / "data" / "photos"


def modules_after(*words: str, then: Sequence[str] = ()) -> set[str]:
    """The modules that a process has imported after it ran a command, and another one."""
    commands = [list(command) for command in (words, then) if command]
    run = f"from beam_tfrecords.beam_pipelines.commands.cli import main\nfor words in {commands!r}: main(words)"
    program = f"import sys\n{run}\nprint('modules', *sys.modules)\n"
    ran = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].split())


def test_writing_and_verifying_import_neither_tensorflow_nor_ipython(tmp_path):
    in_memory = "--direct_running_mode=in_memory"  # the workers are this process
    flags = [f"--input={PHOTOS}", f"--output={tmp_path}", "--image_size=16", in_memory]
    imported = modules_after("convert", *flags, then=["verify", f"--dataset={tmp_path}", in_memory])
    # Beam asks whether it runs in a notebook.
    assert imported.isdisjoint({"tensorflow", "IPython"})
    assert (tmp_path / "_SUCCESS").exists()


def test_a_refused_request_imports_nothing_heavy(tmp_path):
    imported = modules_after("convert", f"--input={tmp_path / 'nowhere'}", f"--output={tmp_path / 'out'}")
    assert imported.isdisjoint({"apache_beam", "pyarrow", "numpy", "PIL", "cv2"})


@pytest.mark.local_runner
def test_a_version_that_would_change_nothing_needs_no_beam(tmp_path):
    words = ["convert", f"--input={PHOTOS}", f"--output={tmp_path}", "--image_size=16", "--versioned", "--no_report"]
    imported = modules_after(*words)
    # The latter evaluates conditions, and counts rows for the report.
    assert ("apache_beam" in imported, "pyarrow.compute" in imported) == (True, False)
    assert "tensorflow" not in imported
    assert "apache_beam" not in modules_after(*words)


@pytest.mark.nightly
def test_local_work_imports_no_client_of_a_cloud(tmp_path):
    # Beam imports libraries of its own where it is installed with them.
    for words in (["convert", f"--input={PHOTOS}", f"--output={tmp_path}"], ["verify", f"--dataset={tmp_path}"]):
        imported = {name.rpartition(".")[2] for name in modules_after(*words)}
        assert imported.isdisjoint({"gcs_client", "s3_client"})
