"""`verify`: classes of a record, of the index, of the manifest and of the metadata agree."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.annotated_inputs import save_pictures, write_coco
from tests.beam_pipelines.dataset_checks import find_all, manifest_of
from tests.beam_pipelines.test_verify_records import one_record, rewrite_shard

BOTH = {
    "image": {"field": "image.encoded"},
    "text": {"field": "label.name"},
    "number": {"field": "label.index"},
    "texts": {"field": "labels.name"},
    "numbers": {"field": "labels.index"},
}


@pytest.fixture(scope="module")
def named(pets, build) -> Path:
    """A dataset that says each class four times."""
    flags = [f"--input={pets}", "--image_size=8", "--num_shards=1"]
    spec = pets.parent / "both.yaml"
    spec.write_text(json.dumps({"layout": BOTH}))
    return build(pets.parent / "both", *flags, f"--spec={spec}")


@pytest.fixture(scope="module")
def boxes(tmp_path_factory, build) -> Path:
    root = tmp_path_factory.mktemp("boxes")
    save_pictures(root / "in")
    coco = write_coco(root / "in/instances.json")
    flags = [f"--input={coco}", f"--image_root={root / 'in'}", "--layout=detection", "--num_shards=1"]
    return build(root / "out", *flags)


def flip(values, change: Callable):
    """Changes the values of one feature, whatever their type."""
    kind = values.WhichOneof("kind")
    old = list(getattr(values, kind).value)
    del getattr(values, kind).value[:]
    getattr(values, kind).value.extend(change(old))


def with_flipped(source: Path, folder: Path, name: str, change: Callable, *, row: Callable | None = None) -> Path:
    path = Path(shutil.copytree(source, folder))

    def edit(values: dict, example) -> bytes:
        if name:
            flip(example.features.feature[name], change)
        if row:
            row(values)
        return example.SerializeToString(deterministic=True)

    # A record with objects, where there are any.
    number = next(n for n, has in enumerate(_objects(path)) if has)
    rewrite_shard(path, 0, one_record(number, edit))
    return path


def _objects(path: Path) -> list[bool]:
    found = []
    rewrite_shard(path, 0, lambda _, row, __: found.append(row.get("objects") != 0))
    return found


def another(values: list) -> list:
    """Another class of the dataset in the place of the first."""
    old = values[0]
    if isinstance(old, bytes):
        return [b"dog" if old != b"dog" else b"cat", *values[1:]]
    return [2 if old != 2 else 1, *values[1:]]


def unknown(values: list) -> list:
    return [b"unheard of" if isinstance(values[0], bytes) else 77, *values[1:]]


@pytest.mark.parametrize("change", [another, unknown])
@pytest.mark.parametrize("name", ["text", "number", "texts", "numbers"])
def test_every_flip_of_a_label_is_named(named, tmp_path, name, change):
    findings = find_all(with_flipped(named, tmp_path / "out", name, change))
    assert any(repr(name) in finding.problem for finding in findings), findings


@pytest.mark.parametrize("name", ["texts", "numbers"])
@pytest.mark.parametrize("change", [lambda values: [], lambda values: values * 2])
def test_more_or_fewer_labels_than_elsewhere_are_named(named, tmp_path, name, change):
    assert find_all(with_flipped(named, tmp_path / "out", name, change))


@pytest.mark.parametrize("label", [None, "no class", "cat", "dog"])
def test_another_label_in_the_index_is_named(named, tmp_path, label):
    def edit(row: dict) -> None:
        row["label"] = label if row["label"] != label else "bird"

    findings = find_all(with_flipped(named, tmp_path / "out", "", another, row=edit))
    assert any("the index says" in finding.problem for finding in findings), findings


@pytest.mark.parametrize("change", [another, unknown])
@pytest.mark.parametrize("name", ["image/object/class/text", "image/object/class/label"])
def test_every_flip_of_the_class_of_an_object_is_named(boxes, tmp_path, name, change):
    findings = find_all(with_flipped(boxes, tmp_path / "out", name, change))
    assert any(repr(name) in finding.problem for finding in findings), findings


def test_every_feature_of_objects_has_as_many_values(boxes, tmp_path):
    for number, name in enumerate(manifest_of(boxes)["spec"]["layout"]):
        if name.startswith("image/object/"):
            for change in (lambda values: values[:-1], lambda values: [*values, values[-1]]):
                path = with_flipped(boxes, tmp_path / f"{number}", name, change)
                assert any(repr(name) in finding.problem for finding in find_all(path)), name
                shutil.rmtree(path)


def test_another_number_of_objects_in_the_index_is_named(boxes, tmp_path):
    findings = find_all(with_flipped(boxes, tmp_path / "out", "", another, row=lambda row: row.update(objects=9)))
    assert any("the index says 9" in finding.problem for finding in findings)


def test_a_dataset_whose_classes_are_right_has_no_findings(named, boxes, verify):
    assert verify(named).code == verify(boxes).code == 0
    assert find_all(named) == find_all(boxes) == []
