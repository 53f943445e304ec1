"""What people type: folders without flags, dashes for underscores, misspelt flags, a shell that completes."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of


@pytest.fixture(scope="module")
def built(photos, tmp_path_factory, run) -> Path:
    """A dataset from two folders without flags."""
    output = tmp_path_factory.mktemp("words") / "out"
    ran = run("convert", photos / "cat", photos / "rocket", output, "--label_pattern=(?P<label>[a-z]+)", "--quiet")
    assert (ran.code, ran.out) == (0, ""), ran.err
    return output


def test_the_last_of_several_words_is_the_output(built):
    assert manifest_of(built)["records"] == 12


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "{}"],
        ["verify", "--output={}"],
        ["inspect", "{}"],
        ["inspect", "--output", "{}"],
        ["status", "{}"],
        ["status", "--dataset={}"],
    ],
)
def test_every_command_takes_the_folder_under_either_name_and_without_one(built, run, words):
    ran = run(*(word.format(built) for word in words))
    assert ran.code == 0, ran.err
    assert str(built) in ran.out


def test_convert_takes_dataset_for_output_but_not_both(photos, tmp_path, run):
    assert run("convert", f"--input={photos}", f"--dataset={tmp_path / 'out'}", "--image-size=8").code == 0
    assert manifest_of(tmp_path / "out")["spec"]["image_size"] == "8x8"
    both = run("convert", photos, tmp_path / "a", f"--dataset={tmp_path / 'b'}")
    both.refused("invalid_command_line", "dataset")


@pytest.mark.parametrize(("word", "code"), [("--overwrite=true", 0), ("--overwrite=false", 2), ("--no_overwrite", 2)])
def test_a_switch_takes_true_and_false(photos, tmp_path, run, word, code):
    words = ["convert", photos, tmp_path / "out", "--image_size=8"]
    assert run(*words).code == 0
    assert run(*words, "--seed=2", word).code == code


def test_dashes_may_stand_for_underscores(photos, tmp_path, run):
    ran = run("convert", photos, tmp_path / "out", "--image-size=8", "--no-upscale", "--max-failures=0.5")
    assert ran.code == 0, ran.err
    spec = manifest_of(tmp_path / "out")["spec"]
    assert (spec["image_size"], spec["upscale"], spec["max_failures"]) == ("8x8", False, 0.5)


@pytest.mark.parametrize("command", ["convert", "verify", "inspect", "status"])
def test_help_of_a_command_both_ways(command, run):
    with pytest.raises(SystemExit) as ended:
        run("help", command)
    assert ended.value.code == 0


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_in_two_ways(run, flag):
    assert run(flag).out == f"beam-tfrecords {importlib.metadata.version('beam-tfrecords')}\n"


@pytest.mark.nightly
def test_the_package_is_the_command_too(built):
    ran = subprocess.run(
        [sys.executable, "-m", "beam_tfrecords", "status", str(built)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"{built}: idle")


def test_bash_completes_commands_and_flags(tmp_path):
    script = subprocess.run([BEAM_TFRECORDS, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    (tmp_path / "script").write_text(script)
    for words, expected in ((["conv"], "convert"), (["convert", "--image_si"], "--image_size")):
        line = ["beam-tfrecords", *words]
        code = f"""
source {tmp_path / "script"}
COMP_WORDS=({" ".join(line)}); COMP_CWORD={len(line) - 1}
$(complete -p beam-tfrecords | sed 's/.*-F \\([^ ]*\\).*/\\1/')
echo "${{COMPREPLY[@]}}"
"""
        ran = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        assert expected in ran.stdout.split()
