"""Requests and inputs that used to end in a traceback or in a false message: one clear line each."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_tfrecords import build
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.refusals import Refusal, refuses


@pytest.fixture
def refused(run, photos, tmp_path):
    """Asserts that a request is refused in one line."""

    def refuse(refusal: Refusal, *words) -> None:
        given = {f"{word}=".split("=")[0] for word in words}
        usual = [f"--input={photos}", f"--output={tmp_path / 'out'}"]
        ran = run("convert", *(word for word in usual if word.split("=")[0] not in given), *words)
        ran.refused(refusal)
        assert len(ran.err.splitlines()) == 1
        assert not (tmp_path / "out").exists()

    return refuse


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--output=/"], Refusal("invalid_value", "output", says=["output=/`"])),
        (["--output=gs://"], Refusal("invalid_value", "output", says=["output=gs://`"])),
        (["--seed=" + "1" * 65], Refusal("invalid_value", "seed", says=["0 to 999999999999999999"])),
        (["--direct_num_workers=-3"], Refusal("invalid_value", "direct_num_workers", says=["=-3: ", "0 or more"])),
        (
            ["--direct_num_workers=-3", "--direct_running_mode=multi_processing"],
            Refusal("invalid_value", "direct_num_workers", says=["=-3: ", "0 or more"]),
        ),
        (
            ["--labels=labels.csv"],
            Refusal("setting_not_applicable", "labels", "label_column", "label_pattern", says=["Dataflow", "folders"]),
        ),
        (
            ["--labels", "class"],
            Refusal("setting_not_applicable", "labels", "label_column", "label_pattern", says=["Dataflow"]),
        ),
        (
            ["--label=class", "--direct_running_mode=multi_threading"],
            Refusal("setting_not_applicable", "label", "label_column", "label_pattern", says=["Dataflow"]),
        ),
        (["--parallelism=0"], Refusal("setting_not_applicable", "parallelism", says=["--direct_num_workers=NUMBER"])),
        (
            ["--flink_master=host:8081"],
            Refusal("setting_not_applicable", "flink_master", says=["--runner=FlinkRunner"]),
        ),
        *(
            ([f"--runner={runner}", f"--{name}={word}"], Refusal("invalid_value", name, says=[f"={word}: ", least]))
            for runner, name, least in (
                ("FlinkRunner", "parallelism", "1 or more"),
                ("FlinkRunner", "sdk_worker_parallelism", "0 or more"),
                ("FlinkRunner", "max_slots", "1 or more"),
                ("PortableRunner", "parallelism", "1 or more"),
                ("SparkRunner", "sdk_worker_parallelism", "0 or more"),
                ("DataflowRunner", "num_workers", "1 or more"),
                ("DataflowRunner", "max_num_workers", "1 or more"),
            )
            for word in ("-1", "few", "2.5", *(["0"] if least == "1 or more" else []))
        ),
        (["--max_num_workers=8"], Refusal("setting_not_applicable", "max_num_workers", says=["--direct_num_workers"])),
        (["--num_workers=8"], Refusal("setting_not_applicable", "num_workers", says=["--direct_num_workers=NUMBER"])),
        (
            ["--s3_endpoint_url=http://localhost:9000"],
            Refusal("setting_not_applicable", "s3_endpoint_url", says=["AWS_ENDPOINT_URL"]),
        ),
        (["--s3_disable_ssl"], Refusal("setting_not_applicable", "s3_disable_ssl", says=["boto3"])),
        (
            ["--runner=PrismRunner", "--s3_region_name=eu"],
            Refusal("setting_not_applicable", "s3_region_name", says=["boto3"]),
        ),
        (["--input=nowhere://bucket/photos"], Refusal("unreadable_input", "input", says=["nowhere://"])),
        (["--output=nowhere://bucket/photos"], Refusal("output_unreachable", "output", says=["nowhere://"])),
        (["--resize_mode=crop"], Refusal("needs_setting", "resize_mode", "image_size", says=["resize_mode=crop"])),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(refused, words, refusal):
    refused(refusal, *words)


@pytest.mark.parametrize(
    "words", [["--labels=airflow-version=v3-2-1", "--labels=team=a"], ["--labels", "a=b"], ['--labels={"a":"b"}']]
)
def test_labels_of_jobs_may_be_given_to_every_runner(photos, tmp_path, run, words):
    assert run("convert", photos, tmp_path / "out", "--image_size=8", *words).code == 0


def test_a_misspelt_setting_of_the_python_call_is_refused(photos, tmp_path):
    with refuses("unknown_setting", "image_sise", "image_size"):
        build(input=str(photos), output=str(tmp_path / "out"), image_sise=32)
    # Before what is missing or wrong.
    with refuses("unknown_setting", "imagesize", "image_size"):
        build(imagesize=3)
    with refuses("unknown_setting", "no_wait"):
        build(input=str(photos), output=str(tmp_path / "out"), no_wait=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("scheme", "package", "extra"),
    [("gs", "google.cloud", "gcp"), ("s3", "boto3", "aws")],
)
def test_rows_of_a_store_without_its_extra_are_refused(refused, tmp_path, scheme, package, extra):
    if _is_installed(package):
        pytest.skip(f"{package} is installed")
    table = tmp_path / "labels.csv"
    table.write_text(f"image,label\n{scheme}://bucket/1.jpg,cat\n{scheme}://bucket/2.jpg,dog\n")
    refusal = Refusal("missing_extra", says=[f"{scheme}://bucket/1.jpg", f"'.[{extra}]'"])
    refused(refusal, f"--input={table}", "--allow_outside_root")


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_a_dataset_in_a_bucket_without_the_extra_is_refused(run, command):
    if _is_installed("google.cloud.storage"):
        pytest.skip("google-cloud-storage is installed")
    ran = run(command, "--dataset=gs://bucket/out")
    ran.refused("missing_extra", says=["'.[gcp]'"])
    assert ran.out == ""


def _is_installed(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that everybody may read; those of pytest belong to one user, and any run of pytest sees to it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("pattern", ["", "/*/*/*.jpg", "/**/*.jpg"])
def test_a_folder_that_may_not_be_read_is_refused_by_name(run, public_folder, photos, pattern):
    shutil.copytree(photos / "cat", public_folder / "photos" / "cat")
    shutil.copytree(photos / "space", public_folder / "photos" / "space" / "inner")
    (public_folder / "photos" / "space" / "inner").chmod(0)
    # Labels from names: the folders are not looked into before they are listed.
    words = [f"--output={public_folder / 'out'}", "--label_pattern=(?P<label>cat|space)", "--dry_run"]
    run("convert", f"--input={photos}", *words)  # imports what nobody might not be able to read
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65_534)
        ran = run("convert", f"--input={public_folder / 'photos'}{pattern}", *words)
    finally:
        if is_root:
            os.seteuid(0)
    ran.refused("unreadable_input", "input", says=[f"{public_folder}/photos/space/inner", "Permission denied"])
    assert (ran.out, len(ran.err.splitlines())) == ("", 1)


@pytest.mark.parametrize("name", ["runner", "temp_location", "direct_num_workers"])
def test_a_flag_of_beam_in_a_spec_file_belongs_on_the_command_line(refused, tmp_path, name):
    (tmp_path / "spec.yaml").write_text(f"{name}: x\n")
    refused(Refusal("flag_in_spec", "spec", says=[f"'{name}'", f"--{name}"]), f"--spec={tmp_path / 'spec.yaml'}")


@pytest.mark.nightly
def test_settings_without_effect_are_noted(photos, tmp_path):
    settings = {"image_encoding": "png", "jpeg_quality": 80, "resample": "box", "upscale": False, "num_shards": 1}
    build(input=str(photos), output=str(tmp_path / "out"), shard_size="5MB", **settings)
    assert manifest_of(tmp_path / "out")["notes"] == [
        "`resample=box`, `no_upscale`: without effect, because there is no `image_size`",
        "`jpeg_quality=80`: without effect with `image_encoding=png`",
        "`shard_size=5000000`: without effect, because `num_shards=1` sets the number",
    ]


def test_a_codec_without_effect_is_noted(photos, tmp_path):
    build(input=str(photos), output=str(tmp_path / "out"), image_encoding="png", bit_depth=16, codec="exact", limit=2)
    assert manifest_of(tmp_path / "out")["notes"] == ["`codec=exact`: without effect with `bit_depth=16`"]


def test_settings_with_an_effect_are_not_noted(photos, tmp_path, run):
    flags = ["--image_size=8", "--resample=box", "--no_upscale", "--jpeg_quality=80", "--num_shards=1"]
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *flags)
    assert ran.code == 0
    assert "note:" not in ran.out


@pytest.mark.parametrize(
    ("flags", "start"),
    [
        (["--compression=gzip"], "TensorFlow Datasets cannot read GZIP shards"),
        (["--image_encoding=webp"], "TensorFlow Datasets reads image as bytes with --image_encoding=webp"),
        (["--image_encoding=keep"], "TensorFlow Datasets reads image as bytes with --image_encoding=keep"),
        (["--channels=keep"], "TensorFlow Datasets reads image as bytes with --image_encoding=jpeg, --channels=keep"),
        (
            ["--image_encoding=raw", "--layout=raw"],
            "TensorFlow Datasets reads image_raw as bytes with --image_encoding=raw",
        ),
    ],
)
def test_what_tfds_reads_as_bytes_is_noted(photos, tmp_path, run, flags, start):
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=8", *flags)
    if "keep" in flags[0] and ran.code == 2:
        ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *flags)
    assert ran.code == 0, ran.err
    assert f"note: {start}" in ran.out


def test_the_summary_has_an_example_of_every_reason(broken, tmp_path, run):
    ran = run("convert", f"--input={broken}", f"--output={tmp_path / 'out'}", "--image_size=8", "--max_failures=0.06")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    for reason, key in {
        "corrupt": "dog/flipped.png",
        "empty": "cat/empty.jpg",
        "not_an_image": "cat/text.jpg",
        "truncated": "dog/truncated.png",
        "label_missing": "without_a_class.jpg",
    }.items():
        (line,) = [line for line in lines if line.startswith(f"  {reason}, for example ")]
        assert line.startswith(f"  {reason}, for example {key}: ")
        assert len(line) > len(f"  {reason}, for example {key}: ")
    assert sum(line.startswith("  unreadable, for example ") for line in lines) == 1


def test_an_unpublished_build_shows_examples_too(broken, tmp_path, run):
    ran = run("convert", f"--input={broken}", f"--output={tmp_path / 'out'}", "--image_size=8")
    assert ran.code == 3
    assert "7 of 127 samples failed; --max_failures=0.01 allows fewer." in ran.err
    assert "  empty, for example cat/empty.jpg: " in ran.err


def test_a_build_in_which_all_fail_says_that_no_record_was_written(tmp_path, run):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    for number in range(6):
        (tmp_path / "photos" / "cat" / f"{number}.jpg").write_text("no photo")
    flags = [f"--input={tmp_path / 'photos'}", f"--output={tmp_path / 'out'}", "--max_failures=1", "--layout=image"]
    ran = run("convert", *flags)
    assert ran.code == 3
    assert "Nothing was published: 6 of 6 samples failed; no record was written." in ran.err
