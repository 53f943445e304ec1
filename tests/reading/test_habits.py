"""What people type from habit: it works, or the message says what does."""

from __future__ import annotations

import collections
import copy
import multiprocessing
import pathlib
import pickle
import random
import re

import numpy as np
import pytest

from beam_tfrecords import build, mix, open_dataset, verify
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

NAMES = {
    "collections": collections,
    "copy": copy,
    "load": load,
    "mix": mix,
    "np": np,
    "numpy": np,
    "open_dataset": open_dataset,
    "pathlib": pathlib,
    "pickle": pickle,
    "random": random,
    "verify": verify,
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build):
    folder = tmp_path_factory.mktemp("habits") / "out"
    flags = ["--image_size=16", "--resize_mode=crop", "--num_shards=2", "--splits=train=0.75,test=0.25"]
    return open_dataset(build(folder, f"--input={photos}", *flags))


@pytest.fixture(scope="module")
def records(dataset):
    return dataset["train"]


@pytest.mark.parametrize(
    "text",
    [
        "len(dataset) == sum(dataset.splits.values()) == len(dataset['train']) + len(dataset['test'])",
        "'train' in dataset and 'nothing' not in dataset",
        "[split for split in dataset] == list(dataset.splits)",
        "len(dataset['train[:10]']) == 10 == len(records[:10])",
        "dataset['train'][0]['label'] == records['label'][0] == records[:1]['label'].item()",
        "records[::-2]['label'].tolist() == records['label'][::-2].tolist()",
        "records[-1]['filename'] == list(reversed(records))[0]['filename'] == records[len(records) - 1]['filename']",
        "len(records[records['label'] == 1]) == dataset.class_counts['train'][dataset.class_names[1]]",
        "len(records[10:5]) == 0 and not records[:0] and bool(records)",
        "records[:0]['label'].dtype == records['label'].dtype == np.int64",
        "len(random.sample(records, 3)) == 3 and 'label' in random.choice(records)",
        "[example['filename'] for example in records][:2] == records['filename'][:2]",
        "next(iter(records)).keys() == records[0].keys()",
        "sorted(records[:5], key=lambda one: one['filename'])[0]['filename'] == min(records['filename'][:5])",
        "[number for number, _ in enumerate(records[:3])] == [0, 1, 2]",
        "dataset.int2str(records[0]['label']) in dataset.class_names",
        "dataset.features['label'].class_names == dataset.class_names",
        "'train' in f'{dataset}' and f'{records}' == repr(records)",
        "{dataset: 1}[open_dataset(dataset)] == 1",
        "pathlib.Path(dataset) == pathlib.Path(dataset.path) and verify(dataset) == []",
        "copy.copy(records)['filename'] == copy.deepcopy(records)['filename']",
        "pickle.loads(pickle.dumps(dataset)).splits == dataset.splits",
        "len(records.filter(label=np.array(['cat', 'dog']))) == len(records.filter(label='cat'))",
        "len(mix([(dataset['train'], 1)])) == len(records)",
        "load(records, batch_size=4).cardinality() == -(-len(records) // 4)",
    ],
)
def test_what_people_type_is_right(dataset, records, text):
    assert eval(text, {**NAMES, "dataset": dataset, "records": records})


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("dataset[0]", TypeError, "dataset['train']"),
        ("dataset.records(0)", TypeError, "split 0: found int"),
        ("load(dataset, 0)", TypeError, "split 0: found int"),
        ("mix([(dataset, 1)])", TypeError, "mix: found Dataset; expected records of each dataset"),
        ("records[True]", TypeError, "found bool"),
        ("records[1.5]", TypeError, "found float; expected the number of a record, a slice"),
        ("records[None]", TypeError, "found NoneType"),
        ("records['nothing']", TypeError, "found no such feature; expected one of filename, label"),
        ("records['image']", TypeError, "records[0]['image']"),
        ("records['label', 'filename']", TypeError, "a feature is read alone: records['filename']"),
        ("records[records['filename']]", TypeError, "truth values"),
        ("dataset.records('train', verify='no')", TypeError, "verify='no': found str; expected True or False"),
        ("open_dataset(dataset, cache_size='1GB')", ValueError, "there is no cache"),
        ("mix([dataset, dataset])", TypeError, "expected pairs"),
        ("mix(dataset)", TypeError, "expected pairs"),
        ("mix([(dataset, 'x')])", TypeError, "expected pairs"),
        ("mix([(records, 1), (records, 1)]).filter(label='cat')", TypeError, "filter each part"),
        ("load(records, 'train')", ValueError, "leave the split 'train' out"),
        ("load(dataset.records('train', form='bytes'))", ValueError, "form='bytes'"),
    ],
)
def test_what_is_not_possible_says_what_is(dataset, records, text, error, says):
    with pytest.raises(error, match=re.escape(says)):
        eval(text, {**NAMES, "dataset": dataset, "records": records})


def test_wrong_conditions_say_what_to_write(records):
    for condition in (lambda example: example["label"] == 0, 3, ["label"], {"label": "cat"}):
        with refuses("invalid_condition", says=[type(condition).__name__, "records[records['label'] == 0]"]):
            records.filter(condition)
    with refuses("invalid_condition", says=["label == '0'", "dataset.int2str(0)"]):
        records.filter(label=0)


def label_of(pair) -> int:
    records, number = pair
    return int(records[number]["label"])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_records(records, method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(label_of, [(records, number) for number in range(6)]) == records["label"][:6].tolist()


def test_a_dataset_is_an_input_as_its_folder_is(dataset, tmp_path):
    again = build(dataset, tmp_path / "out", quiet=True, report=False)
    assert again.splits == dataset.splits
