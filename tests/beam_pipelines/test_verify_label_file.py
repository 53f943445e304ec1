"""`verify`: the file with the class names holds what the manifest says, read as TensorFlow Datasets reads it."""

from __future__ import annotations

import hashlib

import pytest

from tests.beam_pipelines.dataset_checks import find_all, manifest_of
from tests.beam_pipelines.test_verify_records import publish_manifest

FILE = "label.labels.txt"


@pytest.mark.parametrize(
    ("text", "names"), [("cat\n", 1), ("cat\n\ndog\n", 2), ("cat\nsea\nhorse\n", 3), ("cat\ndog", 2), ("dog\ncat\n", 2)]
)
def test_a_label_file_that_does_not_hold_the_class_names_is_found(damaged, text, names):
    path = damaged()
    assert (path / FILE).read_text() == "cat\ndog\n"
    (path / FILE).write_text(text)
    manifest = manifest_of(path)
    manifest["files"][FILE] = hashlib.sha256(text.encode()).hexdigest()
    publish_manifest(path, manifest)
    found = [str(finding) for finding in find_all(path)]
    if text.split() == ["cat", "dog"]:
        assert found == []
    else:
        assert found == [f"{FILE}: holds {names} names as TFDS reads it; expected the 2 class names of the manifest"]
