"""Refusals whose causes other tests do not meet in this process: limits of the system, clusters, stores, functions."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystem import FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import FlinkRunnerOptions
from apache_beam.utils.subprocess_server import JavaJarServer

from beam_tfrecords import build, plan, storage
from beam_tfrecords.beam_pipelines import limits
from beam_tfrecords.beam_pipelines.runners import flink_runner
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.runners.portable_runner import find_jar
from tests.refusals import Refusal, refuses


def fail(error: Exception) -> Callable[..., Any]:
    """A function that raises."""

    def run(*_: Any) -> Any:
        raise error

    return run


def test_a_machine_without_a_temporary_folder_is_refused(monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", fail(FileNotFoundError(errno.ENOENT, "No usable temporary directory")))
    with refuses("no_temporary_folder", says=["TMPDIR"]):
        limits.prepare_process()


def test_a_build_while_python_exits_is_refused(monkeypatch):
    monkeypatch.setattr(threading.main_thread(), "is_alive", lambda: False)
    with refuses("python_is_exiting"):
        limits.prepare_process()


def test_a_relative_path_in_a_deleted_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    os.rmdir(tmp_path / "gone")
    with refuses("working_folder_deleted", says=["out "]):
        storage.absolute("out")


def cluster(**fields: Any) -> flink_runner.FlinkCluster:
    """A cluster with free slots, and fields of its own."""
    usual = {"version": "1.19.3", "slots": 6, "free_slots": 4, "slots_per_manager": 3, "hosts": ()}
    return flink_runner.FlinkCluster("http://host:8081", **{**usual, **fields})


@pytest.mark.parametrize(
    ("fields", "words", "refusal"),
    [
        ({"version": "9.9.1"}, [], Refusal("unsupported_flink_version", "flink_master", says=["9.9.1", "1.19"])),
        (
            {},
            ["--flink_version=1.18"],
            Refusal("flink_version_differs", "flink_version", says=["flink_version=1.18", "1.19.3"]),
        ),
        ({"free_slots": 0}, [], Refusal("no_free_slots", "flink_master", "parallelism", says=["6 task slots"])),
    ],
)
def test_a_cluster_that_cannot_run_a_build_is_refused(fields, words, refusal, monkeypatch):
    monkeypatch.setattr(flink_runner.FlinkCluster, "at", lambda master: cluster(**fields))
    monkeypatch.setattr(FlinkRunnerOptions, "PUBLISHED_FLINK_VERSIONS", ["1.18", "1.19"])
    with refuses(refusal):
        find_runner(["--runner=FlinkRunner", "--flink_master=host:8081", *words]).complete()


def test_an_address_without_a_job_manager_is_refused():
    with socket.socket() as bound:  # and not listening
        bound.bind(("127.0.0.1", 0))
        with refuses("cluster_unreachable", "flink_master", says=["Connection refused"]):
            flink_runner.FlinkCluster.at(f"127.0.0.1:{bound.getsockname()[1]}")


def test_a_job_server_that_cannot_be_downloaded_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(JavaJarServer, "local_jar", fail(RuntimeError("Unable to fetch it. Also failed")))
    with refuses("missing_job_server", "flink_job_server_jar", says=["flink 1.19", "job-server/build.sh"]):
        find_jar("flink-1.19-job-server.jar", "flink:1.19")


def test_the_web_is_no_place_for_other_files_than_images():
    with refuses("web_not_supported", says=["https://host/a"]):
        storage.exists("https://host/a")


class Unset(FileSystem):
    """A file system of Beam that needs settings."""

    @classmethod
    def scheme(cls) -> str:
        return "unset"


def test_a_file_system_of_beam_that_is_not_set_up_is_refused(monkeypatch):
    monkeypatch.setattr(FileSystems, "get_filesystem", fail(ValueError("unset_host is missing")))
    with refuses("store_not_set_up", says=["unset://a/b", "unset_host is missing"]):
        storage.exists("unset://a/b")


def test_a_function_that_holds_what_cannot_be_pickled_is_refused(tmp_path):
    lock = threading.Lock()
    with refuses("unpicklable_function", "input"):
        build(input=lambda: iter([lock]), output=tmp_path / "out")


def test_a_column_without_images_is_no_image_column(tmp_path):
    pq.write_table(pa.table({"a": pa.array([b"1"]), "note": ["x"], "label": [1]}), tmp_path / "a.parquet")
    with refuses("column_without_images", "image_column", says=["'note'"]):
        plan(tmp_path / "a.parquet", tmp_path / "out", source="hf_parquet", image_column="a,note")
