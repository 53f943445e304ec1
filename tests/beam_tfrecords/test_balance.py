"""Records in an order that gives each class equally often, for every reader."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import mix, open_dataset
from beam_tfrecords.reading.shuffling import balanced_order
from tests.annotated_inputs import save_pictures, write_coco
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

COUNTS = {"cat": 6, "space": 3, "rocket": 1}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build):
    """6 cats, 3 of space and a rocket; the rows of a table."""
    folder = tmp_path_factory.mktemp("balance")
    paths = [path for name, count in COUNTS.items() for path in sorted((photos / name).glob("*"))[:count]]
    rows = [f"{path},{path.parent.name}" for path in paths]
    (folder / "rows.csv").write_text("\n".join(["image,label", *rows]))
    flags = ["--allow_outside_root", "--image_size=16", "--resize_mode=crop", "--num_shards=3"]
    return open_dataset(build(folder / "out", f"--input={folder / 'rows.csv'}", *flags))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(0, 3))
def test_each_round_has_each_part_once_and_the_largest_part_is_complete(sizes, seed):
    which, numbers = balanced_order(sizes, seed=seed)
    assert len(which) == len(sizes) * max(sizes)
    assert all(sorted(one) == list(range(len(sizes))) for one in which.reshape(-1, len(sizes)))
    for part, size in enumerate(sizes):
        assert numbers[which == part].tolist() == [number % size for number in range(max(sizes))]


@pytest.mark.nightly
def test_there_may_be_more_parts_than_a_mixture_has_positions():
    which, _ = balanced_order([2] * 50_000, seed=0)
    assert np.bincount(which).tolist() == [2] * 50_000


def test_each_class_comes_equally_often_and_no_record_is_left_out(dataset):
    records = dataset["train"]
    balanced = records.balanced()
    labels = [balanced.class_names[label] for label in balanced["label"]]
    assert Counter(labels) == dict.fromkeys(COUNTS, 6)
    assert all(len({*labels[start : start + 3]}) == 3 for start in range(0, 18, 3))
    names = Counter(example["filename"] for example in balanced)
    assert names.keys() == {example["filename"] for example in records}
    assert sorted(names.values()) == [1] * 6 + [2] * 3 + [6]
    assert balanced["label"].tolist() != records.balanced(seed=1)["label"].tolist()
    again = pickle.loads(pickle.dumps(balanced))
    assert again["filename"] == balanced["filename"] == records.balanced()["filename"]
    assert len({records.digest, balanced.digest, records.balanced(seed=1).digest}) == 3


def test_classes_that_records_lack_are_left_out(dataset):
    some = dataset["train"].filter("label in ('cat', 'rocket')")
    assert Counter(some.balanced()["label"].tolist()) == dict.fromkeys([0, 1], 6)
    assert len(dataset["train"].filter(label="none").balanced()) == 0
    assert len(dataset["train[:4]"].balanced().filter(label="cat")) == max(
        Counter(dataset["train[:4]"]["label"]).values()
    )


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": 5, "seed": 3}, {"decode": False}])
def test_load_gives_each_class_equally_often(dataset, options):
    examples = load(dataset["train"].balanced(), batch_size=4, **options)
    assert len(examples) == 5
    for _ in range(2):
        batches = [batch["label"].numpy().tolist() for batch in examples]
        assert Counter(label for batch in batches for label in batch) == dict.fromkeys(range(3), 6)


def test_readers_share_the_balanced_records(dataset):
    balanced = dataset["train"].balanced()
    shares = [
        [one["filename"].decode() for one in load(balanced, num_readers=3, reader_index=index).as_numpy_iterator()]
        for index in range(3)
    ]
    assert [len(share) for share in shares] == [6, 6, 6]
    assert [name for share in shares for name in share] == balanced["filename"]


def test_balanced_records_are_mixed(dataset):
    mixed = mix([(dataset["train"].balanced(), 0.5), (dataset["train"], 0.5)])
    assert [one["filename"].decode() for one in load(mixed).as_numpy_iterator()] == mixed["filename"]
    with pytest.raises(TypeError, match="balance each part"):
        mixed.balanced()


@pytest.mark.parametrize(
    "flags",
    [
        ["--layout=image"],
        ["--layout=columns"],
        ["--label_column=kinds", "--label_separator=|"],
        ["--label_column=number", "--label_type=float"],
    ],
)
def test_without_single_class_labels_it_is_refused(tmp_path, photos, build, flags):
    rows = [f"{path},{path.parent.name}|photo,{path.parent.name},{number}" for number, path in
            enumerate(sorted(photos.glob("*/*"))[:6])]  # fmt: skip
    (tmp_path / "rows.csv").write_text("\n".join(["image,kinds,label,number", *rows]))
    if flags == ["--layout=columns"]:
        (tmp_path / "spec.yaml").write_text("layout: {number: {field: column.number, type: float}}")
        flags = [f"--spec={tmp_path / 'spec.yaml'}"]
    built = build(tmp_path / "out", f"--input={tmp_path / 'rows.csv'}", "--allow_outside_root", *flags)
    with pytest.raises(ValueError, match="expected examples with one class label each; found the features"):
        open_dataset(built)["train"].balanced()


def test_objects_have_no_single_class(tmp_path, build):
    save_pictures(tmp_path / "pictures")
    source = (f"--input={write_coco(tmp_path / 'instances.json')}", f"--image_root={tmp_path / 'pictures'}")
    built = build(tmp_path / "out", *source)
    with pytest.raises(ValueError, match="one class label each"):
        open_dataset(built)["train"].balanced()


def test_other_balances_are_refused(dataset):
    with pytest.raises(ValueError, match="balanced by 'label': expected 'class'"):
        dataset["train"].balanced("label")
    with refuses("missing_split", says=["'all'"]):
        load(dataset)
