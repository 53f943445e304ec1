"""`--json_summary` and `--metrics_file`: written on success and on failure."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.beam_pipelines.version_builds import Source


@pytest.fixture
def source(source_of) -> Source:
    return source_of(12)


@pytest.fixture
def build(source, tmp_path):
    def build_and_read(*words):
        flags = (f"--json_summary={tmp_path / 'run.json'}", f"--metrics_file={tmp_path / 'run.prom'}")
        ran = source.build(*flags, *words)
        summary = json.loads((tmp_path / "run.json").read_text())
        assert summary["exit_code"] == ran.code
        families = text_string_to_metric_families((tmp_path / "run.prom").read_text())
        metrics = {
            (sample.name.removeprefix("beam_tfrecords_"), *sorted(set(sample.labels) - {"output"})): sample
            for family in families
            for sample in family.samples
        }
        assert metrics["exit_code",].value == ran.code
        return summary, metrics

    return build_and_read


def test_a_published_version(build, source):
    summary, metrics = build()
    assert (summary["status"], summary["dataset"]) == ("published", str(source.latest))
    assert (summary["listed"], summary["records"], summary["failures"]) == (12, 12, 0)
    assert summary["reuse"] == {"copied": 0, "reserialized": 0, "converted": 12}
    assert metrics["records",].value == 12
    assert metrics["records",].labels["output"] == str(source.output)
    assert metrics["dataset_bytes",].value > 0
    assert metrics["end_timestamp_seconds",].value >= summary["began"]


def test_nothing_new(build, source):
    build()
    summary, _ = build()
    assert (summary["status"], summary["dataset"]) == ("unchanged", str(source.latest))


def test_too_many_failures(build, source):
    (source.folder / "cat/broken.jpg").write_bytes(b"no image")
    summary, metrics = build()
    assert (summary["status"], summary["dataset"], summary["failures"]) == ("unpublished", None, 1)
    assert summary["message"].startswith("Nothing was published")
    assert metrics["failures", "reason"].value == 1


def test_a_wrong_request(build):
    summary, _ = build("--image_sise=64")
    assert summary["status"] == "refused"
    assert "did you mean --image_size?" in summary["message"]


def test_a_run_that_publishes_nothing_keeps_the_gauges_of_the_dataset(build, source):
    _, published = build()
    _, refused = build("--image_sise=64")
    of_the_run = {"exit_code", "duration_seconds", "end_timestamp_seconds"}
    assert {key: one for key, one in published.items() if key[0] not in of_the_run}.items() <= refused.items()
    assert refused["exit_code",].labels == published["exit_code",].labels
    (source.folder / "cat/broken.jpg").write_bytes(b"no image")
    _, unpublished = build()
    for key in ("last_success_timestamp_seconds",), ("records",), ("dataset_bytes",), ("records_by_origin", "origin"):
        assert unpublished[key] == published[key]
    assert (unpublished["listed",].value, unpublished["failures", "reason"].value) == (13, 1)
    (source.folder / "cat/broken.jpg").unlink()
    _, unchanged = build()
    assert ("failures", "reason") not in unchanged
    assert unchanged["last_success_timestamp_seconds",].value == unchanged["end_timestamp_seconds",].value


def test_metrics_of_others_are_replaced(build, tmp_path):
    for content in (b"\xff", b"x{", b'beam_tfrecords_records{output="elsewhere"} 7.0\n'):
        (tmp_path / "run.prom").write_bytes(content)
        _, metrics = build("--dry_run")
        assert ("records",) not in metrics


def test_a_run_summary_that_cannot_be_written_is_a_note(source, tmp_path):
    (tmp_path / "file").write_text("")
    ran = source.build(f"--json_summary={tmp_path / 'file/run.json'}")
    assert ran.code == 0
    assert "run.json could not be written: " in ran.err
