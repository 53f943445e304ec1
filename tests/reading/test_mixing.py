"""Mixtures: proportions, epochs, classes joined by name, and the same order in `load` and `records`."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter

import numpy as np
import pytest

from beam_tfrecords import mix, open_dataset
from tests import tensorflow as tf
from tests.annotated_inputs import CATEGORIES, PICTURES, save_pictures, write_coco
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

SEVERAL = "cat|dog", "dog", "red|cat", "blue"


@pytest.fixture(scope="module")
def datasets(tmp_path_factory, photos, build):
    """30 and 12 photos; the classes of the second are others, and one that both have."""
    folder = tmp_path_factory.mktemp("mixing")
    paths = sorted(photos.glob("*/*"))
    found = []
    for name, own in (("first", paths[:30]), ("second", paths[30:])):
        labels = [path.parent.name if name == "first" or number % 3 else "cat" for number, path in enumerate(own)]
        rows = [f"{path},{label}" for path, label in zip(own, labels, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["image,label", *rows]))
        flags = ["--allow_outside_root", "--image_size=16", "--resize_mode=crop", "--num_shards=2"]
        found.append(build(folder / name, f"--input={folder / name}.csv", *flags))
    return found


def mixed_of(datasets, weights=(1, 1), **options):
    """Mixes the records of two datasets."""
    return mix([(open_dataset(one)["train"], weight) for one, weight in zip(datasets, weights, strict=True)], **options)


def labels_of(dataset) -> dict[str, str]:
    """File -> its class."""
    opened = open_dataset(dataset)
    return {example["filename"]: opened.int2str(example["label"]) for example in opened.records()}


def test_classes_are_joined_by_name(datasets):
    mixed = mixed_of(datasets, (0.7, 0.3))
    first, second = map(open_dataset, datasets)
    assert second.class_names != first.class_names[: len(second.class_names)]
    assert mixed.class_names[: len(first.class_names)] == first.class_names
    assert set(mixed.class_names) == {*first.class_names, *second.class_names}
    expected = labels_of(datasets[0]) | labels_of(datasets[1])
    for example in mixed:
        assert mixed.class_names[example["label"]] == expected[example["filename"]]
    for example in load(mixed).as_numpy_iterator():
        assert mixed.class_names[example["label"]] == expected[example["filename"].decode()]


def test_load_and_records_give_one_order(datasets):
    mixed = mixed_of(datasets, (7, 3), seed=3)
    names = [example["filename"] for example in mixed]
    assert [example["filename"].decode() for example in load(mixed).as_numpy_iterator()] == names
    assert len(names) == len(mixed) == load(mixed).cardinality().numpy()
    assert len(set(names)) == 42
    assert [example["filename"] for example in mixed_of(datasets, (0.7, 0.3), seed=3)] == names
    assert [example["filename"] for example in mixed_of(datasets, (0.7, 0.3), seed=4)] != names


def test_a_shuffled_epoch_has_the_proportions_and_others_order(datasets):
    mixed = mixed_of(datasets)
    second = {example["filename"] for example in open_dataset(datasets[1]).records()}
    examples = load(mixed, shuffle=True, seed=1, batch_size=10)
    epochs = [[name.decode() for batch in examples for name in batch["filename"].numpy()] for _ in range(2)]
    assert epochs[0] != epochs[1]
    for names in epochs:
        assert abs(sum(name in second for name in names) - len(names) / 2) <= 2
        assert len(set(names)) == 42
        assert set(Counter(name for name in names if name in second).values()) <= {2, 3}


def test_load_reads_mixed_filtered_and_sliced_records(datasets):
    first, second = (open_dataset(one).records("train") for one in datasets)
    cats, others = first.filter(label="cat"), second.filter("label != 'cat'")
    mixed = mix([(cats, 0.5), (others, 0.3), (first[:7], 0.2)], seed=2)
    nested = mix([(mixed, 0.5), (second, 0.5)], seed=1)
    filtered = first.filter(label=["cat", "space"])
    for records in (filtered, first[[3, 3, 0]], mixed, mixed[2:30:3], mixed[[5, 5, 1]], nested):
        expected = [(one["filename"], one["label"]) for one in records]
        batches = load(records, batch_size=4)
        columns = [(batch["filename"].numpy(), batch["label"].numpy()) for batch in batches]
        read = [pair for names, labels in columns for pair in zip(names, labels, strict=True)]
        assert [(name.decode(), label) for name, label in read] == expected
        assert len(batches) == -(-len(expected) // 4)
        shuffled = load(records, shuffle=True, seed=1, decode=False).as_numpy_iterator()
        assert sorted(one["filename"].decode() for one in shuffled) == sorted(name for name, _ in expected)
    for ours, theirs in zip(nested, load(nested).as_numpy_iterator(), strict=True):
        np.testing.assert_array_equal(ours["image"], theirs["image"])


def test_classes_of_a_mixture_of_mixtures_are_joined_by_name(datasets):
    first, second = (open_dataset(one) for one in datasets)
    expected = labels_of(datasets[0]) | labels_of(datasets[1])
    parts = first.records("train"), second.records("train")
    for inner in (parts, parts[::-1]):
        mixed = mix([(inner[0], 1), (inner[1], 1)])
        for outer in ([mixed, parts[0]], [parts[0], mixed], [parts[1], mixed]):
            nested = mix([(one, 1) for one in outer])
            for one in nested:
                assert nested.class_names[one["label"]] == expected[one["filename"]]
            assert nested["label"].tolist() == [one["label"] for one in nested]


def test_examples_of_several_stored_forms_are_mixed_in_load(tmp_path, photos, build):
    found = []
    for name, flags in (("jpeg", []), ("png", ["--image_encoding=png"]), ("raw", ["--image_encoding=raw"])):
        fixed = ["--image_size=8", "--resize_mode=crop", *flags]
        found.append(open_dataset(build(tmp_path / name, f"--input={photos}", *fixed)).records("train"))
    mixed = mix([(one.filter("label in ('cat', 'space')"), 1) for one in found])
    for ours, theirs in zip(mixed, load(mixed).as_numpy_iterator(), strict=True):
        np.testing.assert_array_equal(ours["image"], theirs["image"])
        assert ours["label"] == theirs["label"]
    (batch,) = load(mixed[:5], batch_size=5, image_size=4)
    assert batch["image"].shape == (5, 4, 4, 3)
    # Records have their own size too.
    (batch,) = load(mixed[:5].resized(6), batch_size=5)
    assert batch["image"].shape == (5, 6, 6, 3)


@pytest.mark.nightly
@pytest.mark.parametrize("options", [{}, {"shuffle": 9, "seed": 1}])
def test_a_checkpoint_goes_on_in_a_mixture(datasets, tmp_path, options):
    def batches():
        return iter(load(mixed_of(datasets), batch_size=4, **options))

    def rest(iterator) -> list[list[bytes]]:
        return [batch["filename"].numpy().tolist() for batch in iterator]

    iterator = batches()
    for _ in range(9):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "state")
    expected, again = rest(iterator), batches()
    tf.train.Checkpoint(iterator=again).restore(path)
    assert rest(again) == expected != []


def test_mixed_records_are_sliced_pickled_and_resized(datasets):
    parts = [open_dataset(one).records("train") for one in datasets]
    mixed = mix([(parts[0], 0.7), (parts[1], 0.3)])
    names = [example["filename"] for example in mixed]
    assert [example["filename"] for example in pickle.loads(pickle.dumps(mixed[5:20:3]))] == names[5:20:3]
    assert mixed[-1]["filename"] == names[-1]
    assert mixed.resized(8, "crop")[0]["image"].shape == (8, 8, 3)
    assert [example["filename"] for example in mixed.read_batch([3, 3, 0])] == [names[3], names[3], names[0]]
    others = (mixed[1:], mix([(parts[0], 0.6), (parts[1], 0.4)]), mix([(parts[0], 0.7), (parts[1], 0.3)], seed=1))
    assert len({mixed.digest, *(other.digest for other in others)}) == 4
    with pytest.raises(TypeError, match="filter each part"):
        mixed.filter(label="cat")


@pytest.mark.nightly
def test_several_labels_and_objects_are_joined_too(tmp_path, photos, build):
    mixtures = []
    paths = sorted(photos.glob("*/*"))[: len(SEVERAL)]
    for name, labels in (("a", SEVERAL), ("b", SEVERAL[::-1][:2])):
        rows = [f"{path},{label}" for path, label in zip(paths, labels, strict=False)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["image,label", *rows]))
        flags = ["--label_separator=|", "--allow_outside_root", "--image_size=16", "--resize_mode=exact"]
        mixtures.append(build(tmp_path / name, f"--input={tmp_path / name}.csv", *flags))
    mixed = mixed_of(mixtures[::-1])
    assert mixed.class_names == ("blue", "cat", "red", "dog")
    found = {tuple(sorted(mixed.class_names[one] for one in example["labels"])) for example in mixed}
    assert found == {tuple(sorted(labels.split("|"))) for labels in SEVERAL}
    hot = load(mixed, multi_hot=True, batch_size=20)
    assert {row.shape for batch in hot for row in batch["labels"].numpy()} == {(4,)}
    rows = [batch["labels"].to_list() for batch in load(mixed, batch_size=20)]
    assert rows == [[example["labels"].tolist() for example in mixed]]


def test_what_cannot_be_mixed_is_refused(datasets, tmp_path, photos, build):
    records = open_dataset(datasets[0]).records("train")
    for weights in ([0], [-1], [float("nan")], []):
        with pytest.raises(ValueError, match="a number above 0"):
            mix([(records, weight) for weight in weights])
    with pytest.raises(ValueError, match="part 1 has no record"):
        mix([(records, 1), (records[:0], 1)])
    for other in (load(datasets[0], "train"), open_dataset(datasets[0]), datasets[0]):
        with pytest.raises(TypeError, match=r"expected records of each dataset: mix\(\[\(open_dataset"):
            mix([(other, 1)])
    other = build(tmp_path / "other", f"--input={photos}", "--layout=imagenet", "--image_size=8")
    with refuses("layouts_differ", "layout", says=["part 1", "filename is bytes in part 0 and missing"]):
        mixed_of([datasets[0], other])
    small = build(tmp_path / "small", f"--input={photos}", "--image_size=8", "--resize_mode=crop")
    with pytest.raises(ValueError, match="different sizes"):
        load(mixed_of([datasets[0], small]), batch_size=4)
    parts = [open_dataset(one).records("train", form="bytes") for one in datasets]
    with pytest.raises(ValueError, match="one list of `class_names`"):
        mix([(parts[0], 1), (parts[1], 1)])


@pytest.mark.parametrize("layout", ["tfds", "detection"])
def test_objects_have_joined_classes(tmp_path, build, layout):
    found = []
    for name, labels in (("a", ["dog"]), ("b", ["cat", "person"])):
        pictures = {
            f"{name}{file}": dataclasses.replace(one, objects=[box for box in one.objects if box[0] in labels])
            for file, one in PICTURES.items()
        }
        save_pictures(tmp_path / name, pictures)
        used = [{"id": CATEGORIES[label], "name": label} for label in labels]
        path = write_coco(tmp_path / f"{name}.json", pictures, categories=used)
        flags = (f"--image_root={tmp_path / name}", "--image_size=16", "--resize_mode=pad", f"--layout={layout}")
        found.append(build(tmp_path / "out" / name, f"--input={path}", *flags))
    mixed = mixed_of(found)
    # Numbers of the input without a class have a name, too.
    assert [name for name in mixed.class_names if "category_" not in name] == ["dog", "person", "cat"]
    feature, first = ("objects/label", 0) if layout == "tfds" else ("image/object/class/label", 1)
    file = "filename" if layout == "tfds" else "image/filename"
    expected = {
        f"{name}{file}": [mixed.class_names.index(label) + first for label, _ in one.objects if label in labels]
        for name, labels in (("a", ["dog"]), ("b", ["cat", "person"]))
        for file, one in PICTURES.items()
    }
    assert {example[file]: example[feature].tolist() for example in mixed} == expected
    padded = load(mixed, num_objects=4, batch_size=20)
    rows = [row for batch in padded for row in zip(batch[file].numpy(), batch[feature].numpy().tolist(), strict=True)]
    assert {name.decode(): row for name, row in rows} == {
        name: [*row, *[-1] * (4 - len(row))] for name, row in expected.items()
    }
