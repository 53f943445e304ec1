"""Every mapping of ours reads the objects that its format has."""

from __future__ import annotations

from collections import defaultdict

import PIL.Image
import pytest

from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import unpack_polygons
from beam_tfrecords.transforms.refs.ref_columns import one_by_one
from beam_tfrecords.transforms.sources.annotated import recognition, trees
from beam_tfrecords.transforms.sources.annotated.mapping import mapping_names
from beam_tfrecords.transforms.sources.annotated.recognition import suggest_mappings
from tests.conftest import run_command
from tests.converting import repacked
from tests.each import each
from tests.transforms.sources.documents.formats import (
    FORMATS,
    IMAGES,
    LABELS,
    POLYGONS,
    quads,
    turned,
    write_json,
    write_via_1,
)


def read(source, files=None):
    """Name of an image -> class, box in pixels and polygons of each object.

    Args:
      files: name of an image -> its name in the format.
    """
    names = {file: name for name, file in (files or {}).items()}
    samples = defaultdict(list)
    for ref in one_by_one(source.samples()):
        assert ref.failure is None, ref
        assert repacked(ref) == ref
        samples[ref.key].append(ref)
    assert source.description.groups_rows or all(len(refs) == 1 for refs in samples.values())
    found = {key.rpartition("/")[2]: refs for key, refs in samples.items()}
    return {names.get(file, file): _objects(names.get(file, file), refs) for file, refs in found.items()}


def _objects(name, refs):
    objects = Objects.merge([ref.objects for ref in refs])
    width, height = IMAGES[name].width, IMAGES[name].height
    scale = (width, height) * 2 if objects.is_normalized else (1,) * 4
    found = []
    for number, label in enumerate(objects.labels):
        box = [side * size for side, size in zip(objects.boxes[4 * number : 4 * number + 4], scale, strict=True)]
        polygons = unpack_polygons(objects.polygons[number]) if objects.polygons else []
        found.append((str(label), box, [(corners * scale[:2]).ravel().tolist() for corners in polygons]))
    return found


def bounds(parts):
    numbers = [number for part in parts for number in part]
    return [min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])]


def expected_of(form, name):
    """Class, box and polygons of each object of an image, in any order."""
    if form.of_quads:
        return [(label, bounds(parts), parts) for label, parts in quads()[name]]
    if form.turn:
        turns = [
            (label, turned(box, form.turn, ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)))
            for label, box in IMAGES[name].objects
        ]
        return [(label, bounds([corners]), [corners]) for label, corners in turns]
    boxes = [(label, list(box), []) for label, box in IMAGES[name].objects[: 1 if form.has_first else None]]
    return boxes + ([(label, bounds(parts), parts) for label, parts in POLYGONS[name]] if form.has_polygons else [])


def save_images(folder, files=None):
    (folder / "photos").mkdir(exist_ok=True)
    for name in IMAGES:
        (folder / "photos" / (files or {}).get(name, name)).write_bytes(b"pixels")


def test_the_table_has_every_mapping():
    # The cases of voc are in tests/cases/voc.yaml.
    assert sorted([*FORMATS, *LABELS, "voc"]) == mapping_names()


@each("name", FORMATS)
def test_the_objects_of_a_format_are_read(name, tmp_path, opened):
    form = FORMATS[name]
    save_images(tmp_path, form.files)
    path = form.write(tmp_path)
    source = opened(path, mapping=name, needs_polygons=True, image_root=(str(tmp_path),))
    found = read(source, form.files)
    assert source.name == "documents"
    assert sorted(found) == [f"{letter}.jpg" for letter in form.only]
    names = form.names or {}
    for key, objects in found.items():
        expected = [(names.get(label, label), box, parts) for label, box, parts in expected_of(form, key)]
        assert [label for label, *_ in sorted(objects)] == [label for label, *_ in sorted(expected)]
        for (_, box, parts), (_, expected_box, expected_parts) in zip(sorted(objects), sorted(expected), strict=True):
            assert box == pytest.approx(expected_box, abs=1e-6)
            if expected_parts:
                assert parts == [pytest.approx(part, abs=1e-4) for part in expected_parts]
            else:
                # Some tools draw boxes as rectangles.
                assert not parts or bounds(parts) == pytest.approx(box, abs=1e-4)
    others = [note for note in source.notes if "of no kind" in note]
    assert bool(others) == (form.others is not None), source.notes
    assert all(note.startswith(f"{form.others} of ") for note in others)


@each("name", LABELS)
def test_the_classes_of_a_format_are_read(name, tmp_path, opened, listed):
    save_images(tmp_path)
    samples = listed(opened(LABELS[name](tmp_path), mapping=name))
    assert [sample.label for _, sample in sorted(samples.items())] == [f"kind {number}" for number in range(4)]


# Rows of VisDrone's eight numbers are those of ICDAR's four corners too; further numbers may be its text.
SIMILAR = {"icdar2015": {"dota", "visdrone"}, "sroie": {"dota", "icdar2015"}, "wflw": {"icdar2015"}}


@each("name", sorted({*FORMATS, *LABELS}))
def test_a_format_is_recognised_by_its_content(name, tmp_path):
    path = (FORMATS[name].write if name in FORMATS else LABELS[name])(tmp_path)
    found = [one.settings["mapping"] for one in suggest_mappings([str(path)])]
    assert {name} <= {*found} <= {name, *SIMILAR.get(name, ())}
    # Names such as gt_1.txt decide which is offered first.
    assert found[0] == name


LISTS = {name: FORMATS[name].write for name in ("bdd100k", "createml", "labelstudio", "labelstudio_min", "via", "vott")}
LISTS["via_1"] = write_via_1


@each("name", LISTS)
def test_a_long_list_is_recognised_by_its_start(name, tmp_path, monkeypatch):
    path = LISTS[name](tmp_path)
    monkeypatch.setattr(recognition, "_START_BYTES", path.stat().st_size * 3 // 4)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")  # Nothing after the start is looked at.
    assert name.removesuffix("_1") in {one.settings["mapping"] for one in suggest_mappings([str(path)])}


def test_the_mapping_of_a_glob_is_recognised(tmp_path):
    FORMATS["labelme"].write(tmp_path)
    assert [one.settings["mapping"] for one in suggest_mappings([f"{tmp_path}/*.json"])] == ["labelme"]


def test_long_rows_are_recognised_by_their_start(tmp_path, monkeypatch):
    monkeypatch.setattr(recognition, "_START_BYTES", 100_000)
    path = tmp_path / "0001.txt"
    path.write_bytes(b"10,20,30,40,1,4,0,0\n" * 20_000 + b"\xff")
    assert "visdrone" in {one.settings["mapping"] for one in suggest_mappings([str(path)])}


def test_a_document_is_read_once_for_all_mappings_of_the_same_samples(tmp_path, monkeypatch):
    read = []

    def read_samples(file, mapping, **settings):
        read.append((file.path, mapping.samples, mapping.columns))
        return trees.read_samples(file, mapping, **settings)

    monkeypatch.setattr(recognition, "read_samples", read_samples)
    FORMATS["labelme"].write(tmp_path)
    first = list(suggest_mappings([str(tmp_path)]))
    assert len(read) == len(set(read)) > 0
    assert list(suggest_mappings([str(tmp_path)])) == first
    assert len(read) == len(set(read))


def test_rows_of_more_cells_are_of_another_format(tmp_path):
    """A driving log is no table of keras-retinanet, which has six columns."""
    rows = [f"{number}.jpg,1,2,10,20,3,2021-03-01,B,0.4" for number in range(5)]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    assert list(suggest_mappings([str(tmp_path / "log.csv")])) == []


def test_the_mapping_of_a_folder_is_offered(tmp_path):
    for name in IMAGES:
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        PIL.Image.new("RGB", (IMAGES[name].width, IMAGES[name].height)).save(tmp_path / "in" / name)
    FORMATS["labelme"].write(tmp_path / "in")
    ran = run_command("convert", f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}")
    assert ran.code == 2
    assert "--mapping=labelme" in ran.err
    assert "--layout=detection" in ran.err


@each("name", LABELS)
def test_documents_of_classes_without_their_image_fail(name, tmp_path, opened, listed):
    save_images(tmp_path)
    (tmp_path / "photos/b.jpg").unlink()
    LABELS[name](tmp_path)
    samples = listed(opened(tmp_path, mapping=name))
    assert sorted(sample.failure is not None for sample in samples.values()) == [False, False, False, True]


# Values of an object of names that are no labels of images.
OTHERS = {
    "splits": {"a.jpg": "train", "b.jpg": "test"},
    "class names": {"0": "cat", "1": "dog"},
    "metadata": {"title": "pets", "license": "CC0"},
    "sizes": {"a.jpg": {"width": 3}, "b.jpg": {"width": 4}},
}


@each("name", OTHERS)
def test_other_objects_of_names_are_not_recognised(name, tmp_path):
    path = write_json(tmp_path / "meta.json", OTHERS[name])
    assert list(suggest_mappings([str(path)])) == []


def test_labels_of_an_object_are_what_the_values_say(tmp_path, opened, listed):
    save_images(tmp_path)
    values = {"a.jpg": 0, "b.jpg": ["x", "y"], "c.jpg": {"class": 7, "split": "test"}, "d.jpg": {"tags": ["z"]}}
    samples = listed(opened(write_json(tmp_path / "labels.json", values), mapping="json_object"))
    assert [sample.label for _, sample in sorted(samples.items())] == [0, ["x", "y"], 7, "z"]
    assert {sample.split for _, sample in samples.items()} == {None, "test"}
