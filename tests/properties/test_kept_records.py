"""`layout=same`: records of any features keep their bytes, wherever they lie, and readers return their values."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import ConvertSamples, Dataset, ReadSamples, RequestError, build
from tests import tensorflow as tf
from tests.framing import Example, framed, records_of, write_examples
from tests.pictures import picture
from tests.published import read_published
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

_VALUES = {
    "bytes_list": st.binary(max_size=6),
    "int64_list": st.integers(-(2**63), 2**63 - 1),
    "float_list": st.floats(width=32),
}
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4).filter("id".__ne__)


def keep(source: Path, output: Path, **settings: Any) -> Dataset:
    settings = {"source": "tfrecord", "layout": "same", "key_column": "id", "name": "kept", **settings}
    return build(str(source), str(output), quiet=True, **settings)


@st.composite
def examples(draw: st.DrawFn) -> list[Any]:
    """Examples of the same features: of each type, with one value, with as many, with any number, or missing."""
    features = draw(st.dictionaries(NAMES, st.tuples(st.sampled_from([*_VALUES]), st.sampled_from("1nv?")), max_size=4))
    made = []
    for number in range(draw(st.integers(1, 5))):
        example = Example()
        example.features.feature["id"].bytes_list.value.append(b"%d" % number)
        for name, (kind, form) in features.items():
            count = {"1": 1, "n": 3}.get(form) or draw(st.integers(0, 3))
            values = draw(st.lists(_VALUES[kind], min_size=count, max_size=count))
            if form != "?" or draw(st.booleans()):
                stored = getattr(example.features.feature[name], kind)
                stored.SetInParent()
                stored.value[:] = values
        made.append(example)
    return made


@given(written=examples())
def test_any_features_come_back(written):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.tfrecord")
        path.write_bytes(framed(*(one.SerializeToString() for one in written)))
        dataset = keep(path, Path(folder, "out"))
        published = read_published(dataset.path)
        stored = [data for name in published.shards for data in records_of(Path(dataset.path, name))]
        assert Counter(stored) == Counter(records_of(path))
        layout = {feature.name: feature for feature in dataset.layout.features}
        assert {*layout} == {name for one in written for name in one.features.feature}
        of_tensorflow = {one["id"].decode(): one for one in load(dataset, "train").as_numpy_iterator()}
        for record, read in zip(published.records, dataset.records("train"), strict=True):
            for name, feature in layout.items():
                for found in (read[name], of_tensorflow[record.key][name]):
                    values = [*found] if feature.several or feature.length else [found]
                    values = [one.encode() if isinstance(one, str) else _plain(one) for one in values]
                    assert repr(values) == repr(record.values.get(name, []))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def rows_of(count: int = 20) -> list[dict[str, Any]]:
    return [
        {"id": b"s%02d" % n, "text": b"text %d" % n, "emb": [n / 4, 0.5], "tags": [b"a"] * (n % 3), "n": n % 5}
        for n in range(count)
    ]


def write(folder: Path, files: int, rows: Sequence[Mapping[str, Any]]) -> Path:
    folder.mkdir()
    for number in range(files):
        write_examples(folder / f"train-{number:05d}-of-{files:05d}", rows[number::files])
    return folder


def test_tensorflow_parses_the_records_and_conditions_choose_them(tmp_path):
    dataset = keep(write(tmp_path / "in", 1, rows_of()), tmp_path / "out", num_shards=3)
    assert dataset.verify() == []
    spec = {"emb": tf.io.FixedLenFeature([2], tf.float32), "n": tf.io.FixedLenFeature([], tf.int64)}
    files = tf.data.TFRecordDataset(sorted(map(str, Path(dataset.path).glob("*.tfrecord-*"))))
    assert sum(int(tf.io.parse_single_example(one, spec)["n"]) for one in files) == sum(one["n"] for one in rows_of())
    assert dataset.records("train").filter("column.n > 3").filter(key="s04")[0]["text"] == "text 4"


@pytest.mark.parametrize("has_images", [False, True])
def test_records_of_three_files_and_of_seven_give_the_same_shards(tmp_path, has_images):
    settings: dict[str, Any] = {"splits": "train=0.6,test=0.4", "num_shards": 2}
    rows = rows_of()
    if has_images:
        settings |= {"layout": None, "image_size": 16}
        rows = [{"id": one["id"], "image": picture(f"red {n + 8}x9"), "label": n % 2} for n, one in enumerate(rows)]
    made = [keep(write(tmp_path / f"in{n}", n, rows), tmp_path / f"out{n}", **settings) for n in (3, 7)]
    first, second = (read_published(dataset.path) for dataset in made)
    assert len(first.shards) == 4
    assert first.shards == second.shards
    assert [one.key for one in first.records] == [one.key for one in second.records]


def test_compressed_records_come_back(tmp_path):
    source = write(tmp_path / "in", 1, rows_of())
    first = keep(source, tmp_path / "first", compression="gzip")
    # Not as a dataset of ours.
    (tmp_path / "others").mkdir()
    for path in Path(first.path).glob("*.tfrecord-*"):
        path.rename(tmp_path / "others" / path.name)
    again = keep(tmp_path / "others", tmp_path / "again")
    ((original,), (stored,)) = source.iterdir(), Path(again.path).glob("*.tfrecord-*")
    assert {*records_of(stored)} == {*records_of(original)}


@pytest.mark.parametrize("transform", [ReadSamples, ConvertSamples])
def test_samples_are_no_records(tmp_path, transform):
    of_input = {"input": str(write(tmp_path / "in", 1, rows_of(3))), "source": "tfrecord"}
    with pytest.raises(RequestError) as refused:
        transform(layout="same", **(of_input if transform is ReadSamples else {}))
    assert (refused.value.code, list(refused.value.settings)) == ("setting_not_applicable", ["layout"])
