"""`--layout=same`: records of any features are shuffled, split, filtered and sharded, and keep their bytes."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import ConvertSamples, ReadSamples, open_dataset
from beam_tfrecords.features.example_pb2 import BytesList, Example, Feature, FloatList, Int64List
from tests import tensorflow as tf
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.dataset_records import read_dataset
from tests.framing import example_of, framed, records_of, write_examples
from tests.refusals import Refusal, refuses
from tests.tensorflow import load
from tests.transforms.sources.records.test_tfrecord_source import features_json

pytestmark = pytest.mark.tensorflow

SAME = ["--source=tfrecord", "--layout=same", "--name=kept"]
LISTS = {"bytes": BytesList, "int64": Int64List, "float": FloatList}
_VALUES = {
    "bytes": st.binary(max_size=6),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
}
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4).filter("id".__ne__)


@st.composite
def examples(draw: st.DrawFn) -> list[Example]:
    """Examples of the same features: of each type, with one value, with as many, with any number, or missing."""
    features = draw(st.dictionaries(NAMES, st.tuples(st.sampled_from([*LISTS]), st.sampled_from("1nv?")), max_size=4))
    made = []
    for number in range(draw(st.integers(1, 5))):
        example = Example()
        example.features.feature["id"].bytes_list.value.append(b"%d" % number)
        for name, (kind, form) in features.items():
            count = {"1": 1, "n": 3}.get(form) or draw(st.integers(0, 3))
            values = draw(st.lists(_VALUES[kind], min_size=count, max_size=count))
            if form != "?" or draw(st.booleans()):
                example.features.feature[name].CopyFrom(Feature(**{f"{kind}_list": LISTS[kind](value=values)}))
        made.append(example)
    return made


def values_of(example: Example) -> dict[str, list[Any]]:
    """Feature -> its values."""
    features = example.features.feature
    kinds = {name: features[name].WhichOneof("kind") for name in features}
    return {name: [*getattr(features[name], kind).value] if kind else [] for name, kind in kinds.items()}


@given(written=examples())
def test_any_features_come_back(written, build):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.tfrecord")
        path.write_bytes(framed(*(one.SerializeToString() for one in written)))
        out = build(Path(folder, "out"), f"--input={path}", *SAME, "--key_column=id")
        stored = read_dataset(out, "train")
        assert Counter(one.data for one in stored) == Counter(records_of(path))
        by_key = {one["id"].decode(): values_of(example) for one, example in zip(stored, _parsed(stored), strict=True)}
        layout = {feature.name: feature for feature in open_dataset(out).layout.features}
        assert {*layout} == {name for one in written for name in one.features.feature}
        of_tensorflow = {one["id"].decode(): one for one in load(out, "train").as_numpy_iterator()}
        for key, read in zip((one.key for one in stored), open_dataset(out).records("train"), strict=True):
            for name, feature in layout.items():
                expected = by_key[key].get(name, [])
                for found in (read[name], of_tensorflow[key][name]):
                    values = [*found] if feature.several or feature.length else [found]
                    values = [one.encode() if isinstance(one, str) else one for one in values]
                    assert repr([_plain(one) for one in values]) == repr(expected)


def _parsed(stored: Sequence[Any]) -> list[Example]:
    return [Example.FromString(one.data) for one in stored]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


ROWS = [
    {
        "id": b"s%02d" % number,
        "text": b"text %d" % number,
        "emb": [number / 4, 0.5],
        "tags": [b"a"] * (number % 3),
        "n": number % 5,
    }
    for number in range(20)
]


def write(folder: Path, files: int = 1, rows: Sequence[Mapping[str, Any]] = ROWS) -> Path:
    folder.mkdir()
    for number in range(files):
        write_examples(folder / f"train-{number:05d}-of-{files:05d}", rows[number::files])
    return folder


def test_tensorflow_and_our_readers_return_the_values(tmp_path, build, verify):
    out = build(tmp_path / "out", f"--input={write(tmp_path / 'in')}", *SAME, "--key_column=id", "--num_shards=3")
    assert verify(out).code == 0
    found = {one["id"]: one for one in load(out, "train").as_numpy_iterator()}
    assert len(found) == 20
    assert found[b"s07"]["text"] == b"text 7"
    assert [*found[b"s07"]["emb"]] == [1.75, 0.5]
    assert [*found[b"s07"]["tags"]] == [b"a"]
    spec = {"emb": tf.io.FixedLenFeature([2], tf.float32), "n": tf.io.FixedLenFeature([], tf.int64)}
    files = tf.data.TFRecordDataset(sorted(map(str, out.glob("*.tfrecord-*"))))
    assert sum(int(tf.io.parse_single_example(one, spec)["n"]) for one in files) == sum(one["n"] for one in ROWS)
    assert open_dataset(out).records("train").filter("column.n > 3").filter(key="s04")[0]["text"] == "text 4"


def test_records_of_three_files_and_of_seven_give_the_same_shards(tmp_path, build):
    flags = [*SAME, "--key_column=id", "--splits=train=0.6,test=0.4", "--num_shards=2"]
    outs = [build(tmp_path / f"out{n}", f"--input={write(tmp_path / f'in{n}', n)}", *flags) for n in (3, 7)]
    shards = [{path.name: path.read_bytes() for path in out.glob("*.tfrecord-*")} for out in outs]
    assert shards[0] == shards[1]
    assert len(shards[0]) == 4
    rows = [
        [(one.key, one.row["sample_hash"], one.row["fingerprint"]) for one in read_dataset(out, "test")] for out in outs
    ]
    assert rows[0] == rows[1]


def test_images_of_three_files_and_of_seven_give_the_same_shards(tmp_path, build):
    photos = sorted((Path(__file__).parents[1] / "data/photos").glob("*/*.jpg"))[:14]
    rows = [{"id": path.stem.encode(), "image": path.read_bytes(), "label": n % 2} for n, path in enumerate(photos)]
    flags = ["--source=tfrecord", "--key_column=id", "--image_size=16", "--name=photos", "--splits=train=0.6,test=0.4"]
    outs = [build(tmp_path / f"out{n}", f"--input={write(tmp_path / f'in{n}', n, rows)}", *flags) for n in (3, 7)]
    shards = [{path.name: path.read_bytes() for path in out.glob("*.tfrecord-*")} for out in outs]
    assert shards[0] == shards[1]
    index = [[{**one.row, "uri": ""} for one in read_dataset(out, "train")] for out in outs]
    assert index[0] == index[1]


def test_a_condition_a_split_and_a_group_are_those_of_features(tmp_path, build):
    rows = [{**row, "split": (b"train", b"test")[number % 2]} for number, row in enumerate(ROWS)]
    flags = [*SAME, "--where=column.n < 2 and column.text != 'text 0'", "--key_column=id"]
    out = build(tmp_path / "out", f"--input={write(tmp_path / 'in', rows=rows)}", *flags)
    expected = {
        split: {row["id"].decode() for row in rows[1:] if row["n"] < 2 and row["split"] == split.encode()}
        for split in ("train", "test")
    }
    assert {split: {one.key for one in read_dataset(out, split)} for split in expected} == expected
    flags = [*SAME, "--group_column=n", "--splits=train=0.5,test=0.5", "--split_column="]
    grouped = build(tmp_path / "grouped", f"--input={tmp_path / 'in'}", *flags)
    groups = [{one["n"] for one in read_dataset(grouped, split)} for split in ("train", "test")]
    assert all(groups)
    assert groups[0].isdisjoint(groups[1])


def test_compressed_records_come_back_compressed_or_not(tmp_path, build):
    plain = write(tmp_path / "in")
    first = build(tmp_path / "first", f"--input={plain}", *SAME, "--key_column=id", "--compression=gzip")
    # Not as a dataset of ours.
    (tmp_path / "foreign").mkdir()
    for path in first.glob("*.tfrecord-*"):
        path.rename(tmp_path / "foreign" / path.name)
    again = build(tmp_path / "again", f"--input={tmp_path / 'foreign'}", *SAME, "--key_column=id")
    (original,) = plain.iterdir()
    assert {one.data for one in read_dataset(again, "train")} == {*records_of(original)}


@pytest.mark.parametrize(
    ("late", "says"),
    [
        ({"new": 3}, "`layout=same,new:int64_list`"),
        ({"new": Feature()}, "`layout=same,new:bytes_list`"),
        ({"text": [b"a", b"b"]}, "`layout=same,text:bytes_list`"),
        ({"emb": [0.5]}, "`layout=same,emb:float_list`"),
        ({"n": [0.5]}, "is float; expected int64"),
    ],
)
def test_a_record_that_differs_from_the_first_is_rejected_and_the_detail_says_what_accepts_it(
    tmp_path, build, late, says
):
    rows = [*[{**ROWS[0], "id": b"%d" % number} for number in range(1100)], {**ROWS[0], **late, "id": b"late"}]
    flags = [f"--input={write(tmp_path / 'in', rows=rows)}", *SAME, "--key_column=id"]
    out = build(tmp_path / "out", *flags)
    (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["reason"]) == ("late", "wrong_type")
    assert says in failure["detail"]
    if "layout=" in says:
        accepts = failure["detail"].partition("`")[2].partition("`")[0]
        others = [flag for flag in flags if not flag.startswith("--layout")]
        out = build(tmp_path / "accepted", *others, f"--{accepts}")
        assert manifest_of(out)["records"] == 1101
        assert (out / "failures.jsonl").read_text() == ""


def test_class_names_beside_the_records_stay_with_their_numbers(tmp_path, build):
    folder = tmp_path / "in"
    write(folder, rows=[{"x": number, "label": number % 3} for number in range(9)])
    (folder / "features.json").write_text(features_json(x="Scalar", label="ClassLabel"))
    (folder / "label.labels.txt").write_text("zebra\nant\ncat\n")
    out = build(tmp_path / "out", f"--input={folder}", *SAME)
    assert open_dataset(out).features["label"].class_names == ("zebra", "ant", "cat")
    assert (out / "label.labels.txt").read_text() == "zebra\nant\ncat\n"
    assert {(one["x"] % 3, one["label"]) for one in read_dataset(out, "train")} == {(n, n) for n in range(3)}
    cats = build(tmp_path / "cats", f"--input={folder}", *SAME, "--where=column.label = 'cat'")
    assert [one["label"] for one in read_dataset(cats, "train")] == [2] * 3
    plain = build(
        tmp_path / "plain", f"--input={folder}", "--source=tfrecord", "--layout=same,label:int64", "--name=kept"
    )
    assert not (plain / "label.labels.txt").exists()


@pytest.fixture
def refuse(convert, tmp_path):
    """Asserts that a request is refused; returns the refusal."""
    return lambda refusal, *words: convert(f"--output={tmp_path / 'out'}", *words).refused(refusal)


def test_numbers_that_mean_other_classes_are_not_mixed(tmp_path, refuse):
    for name, names in (("a", "ant\ncat\n"), ("b", "cat\nant\n")):
        write(tmp_path / name, rows=[{"label": number % 2} for number in range(4)])
        (tmp_path / name / "features.json").write_text(features_json(label="ClassLabel"))
        (tmp_path / name / "label.labels.txt").write_text(names)
    flags = [f"--input={tmp_path / 'a'}", f"--input={tmp_path / 'b'}", *SAME]
    refuse(Refusal("class_names_differ", "input", "layout"), *flags)


@pytest.mark.parametrize(
    ("refusal", "flags"),
    [
        (Refusal("conflicting_settings", "layout", "map"), ["--map=tests.own_rows:shades"]),
        (Refusal("types_differ", "input", "layout", says=["'n'"]), []),
        (Refusal("setting_not_applicable", "label_column"), ["--label_column=n"]),
        (Refusal("setting_not_applicable", "image_column"), ["--image_column=text"]),
    ],
)
def test_what_cannot_act_is_refused(tmp_path, refuse, refusal, flags):
    rows = ROWS if flags else [*ROWS, {**ROWS[0], "n": b"text"}]
    refuse(refusal, f"--input={write(tmp_path / 'in', rows=rows)}", *SAME, *flags)


def test_a_feature_without_a_type_is_refused(tmp_path, refuse):
    refuse(
        Refusal("invalid_layout", "layout"), f"--input={write(tmp_path / 'in')}", "--source=tfrecord", "--layout=same,x"
    )


@pytest.mark.parametrize("transform", [ReadSamples, ConvertSamples])
def test_samples_are_no_records(transform, tmp_path):
    of_input = {"input": str(write(tmp_path / "in")), "source": "tfrecord"} if transform is ReadSamples else {}
    with refuses("setting_not_applicable", "layout"):
        transform(layout="same", **of_input)


def test_a_table_has_no_records(tmp_path, refuse):
    (tmp_path / "a.csv").write_text("image,label\na.jpg,b\n")
    refuse(Refusal("missing_content", "input", "layout"), f"--input={tmp_path / 'a.csv'}", "--layout=same")


def test_a_dataset_of_ours_keeps_its_layout(tmp_path, build):
    first = build(tmp_path / "first", f"--input={write(tmp_path / 'in')}", *SAME, "--key_column=id")
    again = build(tmp_path / "again", f"--input={first}", "--layout=same", "--num_shards=2", "--name=kept")
    assert open_dataset(again).layout == open_dataset(first).layout
    values = [{one.key: dict(one.values) for one in read_dataset(out, "train")} for out in (first, again)]
    assert values[0] == values[1]


def test_a_next_version_reuses_records_that_lie_in_other_files(tmp_path, build):
    flags = [*SAME, "--key_column=id", "--versioned"]
    build(tmp_path / "out", f"--input={write(tmp_path / 'in', 3)}", *flags)
    rows = [*ROWS[1:], {**ROWS[0], "text": b"new"}]
    build(tmp_path / "out", f"--input={write(tmp_path / 'in2', 7, rows=rows)}", *flags)
    changes = json.loads(Path(open_dataset(tmp_path / "out").path, "changes.json").read_text())["changes"]
    assert {kind: found["samples"] for kind, found in changes.items() if found["samples"]} == {
        "copied": 19,
        "changed": 1,
    }


def test_tables_join_by_the_key_that_a_feature_has(tmp_path, build):
    (tmp_path / "more.csv").write_text("id,weight\n" + "".join(f"s{number:02d},{number}\n" for number in range(20)))
    flags = ["--source=tfrecord", "--key_column=id", f"--join={tmp_path / 'more.csv'}", "--join_key=id", "--name=kept"]
    spec = tmp_path / "spec.yaml"
    spec.write_text("layout:\n  n: {field: column.n, type: int64}\n  weight: {field: column.weight, type: float}\n")
    for files in (1, 3):
        out = build(
            tmp_path / f"out{files}", f"--spec={spec}", f"--input={write(tmp_path / f'in{files}', files)}", *flags
        )
        assert {one.key: one["weight"] for one in read_dataset(out, "train")} == {f"s{n:02d}": n for n in range(20)}


def test_records_of_one_key_are_failures(tmp_path, build):
    rows = [*ROWS, {**ROWS[3], "text": b"other"}]
    out = build(
        tmp_path / "out",
        f"--input={write(tmp_path / 'in', 3, rows=rows)}",
        *SAME,
        "--key_column=id",
        "--max_failures=0.2",
    )
    assert manifest_of(out)["records"] == 19
    reasons = [json.loads(line)["reason"] for line in (out / "failures.jsonl").read_text().splitlines()]
    assert reasons == ["conflicting_rows"] * 2


def test_the_same_record_twice_is_dropped_as_a_duplicate(tmp_path, build):
    flags = [f"--input={write(tmp_path / 'in', rows=[*ROWS, ROWS[5]])}", *SAME, "--duplicates=drop"]
    assert manifest_of(build(tmp_path / "out", *flags))["records"] == 20


def test_an_image_is_kept_as_it_is_encoded(tmp_path, build):
    photo = next((Path(__file__).parents[1] / "data/photos").glob("*/*.jpg")).read_bytes()
    (tmp_path / "a.tfrecord").write_bytes(
        framed(example_of({"image": photo, "label": 1}), example_of({"image": photo, "label": 2}))
    )
    out = build(tmp_path / "out", f"--input={tmp_path / 'a.tfrecord'}", *SAME)
    assert {(one["image"], one["label"]) for one in read_dataset(out, "train")} == {(photo, 1), (photo, 2)}
