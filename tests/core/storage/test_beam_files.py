"""Schemes that Beam's FileSystems serve: what deletes, and which errors of a client are faults of the store."""

from __future__ import annotations

import io

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import faults
from tests.core.storage.dictionary_files import DictionaryFiles
from tests.each import each


@pytest.fixture(autouse=True)
def files():
    DictionaryFiles.files.clear()
    DictionaryFiles.calls.clear()
    return DictionaryFiles.files


def test_listed_files_are_deleted_without_asking_for_each(files):
    files.update({f"dictionary://a/{number}": (b"", 1.5) for number in range(250)})
    storage.delete_tree("dictionary://a")
    assert not files
    assert DictionaryFiles.calls == ["delete"] * 3


@pytest.mark.parametrize(("name", "why"), [("silent", "no connection"), ("unreachable", "no route")])
def test_a_store_that_does_not_answer_ends_the_build(name, why):
    with pytest.raises(BuildError, match=rf"^dictionary://a/{name} does not answer: .*{why}$"):
        storage.read_bytes(f"dictionary://a/{name}")


@pytest.mark.parametrize(("status", "is_fault"), [(401, True), (403, True), (429, True), (503, True), (404, False)])
def test_an_answer_that_beam_wraps_is_a_service_fault_by_its_status(monkeypatch, status, is_fault):
    monkeypatch.setattr(DictionaryFiles, "status", status, raising=False)
    with pytest.raises(OSError, match="refused") as raised:
        storage.read_bytes("dictionary://a/refused")
    assert storage.is_service_fault(raised.value) == is_fault


@each("status", range(300, 600, 7))
def test_an_answer_that_beam_does_not_wrap_is_an_error_by_its_status(monkeypatch, status):
    monkeypatch.setattr(DictionaryFiles, "status", status, raising=False)
    kind = storage.StorageError if 400 <= status < 500 else BuildError
    with pytest.raises(kind, match=f"status {status}"):
        storage.read_bytes("dictionary://a/unwrapped")


def test_missing_bytes_of_a_range_end_the_build(files, monkeypatch):
    files["dictionary://a/1"] = (b"0123", 1.5)
    monkeypatch.setattr(faults, "_PAUSES", (0.0,))
    monkeypatch.setattr(DictionaryFiles, "open", lambda *_, **__: io.BytesIO(b"01"))
    with pytest.raises(BuildError, match="only 1 of 3 bytes can be read, in 2 attempts"):
        storage.read_range("dictionary://a/1", 1, 100)
