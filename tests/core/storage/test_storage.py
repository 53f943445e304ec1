"""Which file system serves a path, and what is imported for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from beam_tfrecords import storage
from tests.refusals import refuses


def test_local_files_need_neither_beam_nor_a_cloud_client(tmp_path):
    program = (
        "import sys\nfrom beam_tfrecords import storage\n"
        "storage.write_bytes(sys.argv[1], b'data')\n"
        "assert storage.sha256(sys.argv[1]) and storage.is_glob('gs://bucket/*')\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program, tmp_path / "file"], stdout=subprocess.PIPE, check=True)
    clients = {b"apache_beam", b"boto3", b"google.auth", b"google.cloud.storage", b"requests"}
    assert not clients & set(ran.stdout.split())


@pytest.mark.parametrize(
    ("scheme", "library", "extra"), [("gs", "google.cloud.storage", "gcp"), ("s3", "boto3", "aws")]
)
def test_a_store_without_its_extra_is_refused_with_the_command_that_installs_it(monkeypatch, scheme, library, extra):
    module = "gcs" if scheme == "gs" else scheme
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"beam_tfrecords.storage.{module}", raising=False)
    monkeypatch.delattr(storage, module, raising=False)
    with refuses("missing_extra", says=[f"{scheme}://bucket/x", f"'.[{extra}]'"]):
        storage.read_bytes(f"{scheme}://bucket/x")


def test_an_unknown_scheme_is_refused():
    with refuses("unknown_scheme", says=["nowhere://x/y"]):
        storage.exists("nowhere://x/y")


def test_the_modules_of_stores_are_named_for_those_who_import_them_early():
    paths = ["gs://a/b", "s3://c", "/local", "gs://d", "memory://e", "relative"]
    found = storage.modules_for(paths)
    assert found == ["beam_tfrecords.storage.gcs", "beam_tfrecords.storage.s3"]
    assert storage.modules_for(["/local"]) == []
