"""Splits of tables: from a column of any usual name, from folds and booleans, from the names of the files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.transforms.splits import Splits, name_split, read_splits
from tests.refusals import Refusal, refuses
from tests.source_requests import FRACTIONS


@pytest.fixture
def table(tmp_path):
    """Writes a csv file with the columns label and one other, whose words are given."""

    def write(column: str, *words: str, name: str = "m.csv"):
        rows = [f"cat,{word}" for word in words]
        (tmp_path / name).write_text("\n".join([f"label,{column}", *rows]) + "\n")
        return tmp_path / name

    return write


def splits_of(samples) -> list[str | None]:
    return [sample.split for sample in samples.values()]


@pytest.mark.parametrize("column", ["set", "Subset", "partition", "phase", "Usage", "fold"])
def test_a_column_of_a_usual_name_says_the_splits_if_its_words_are_names_of_splits(table, opened, listed, column):
    source = opened(table(column, "train", "val", "Test", ""))
    assert splits_of(listed(source)) == ["train", "val", "Test", None]
    assert source.notes == [f"m.csv: splits from column {column!r}"]


@pytest.mark.parametrize(
    ("column", "words", "splits"),
    [
        ("is_valid", ["True", "False", ""], ["validation", "train", None]),
        ("is_train", ["1", "0", "1"], ["train", "test", "train"]),
        ("is_training_image", ["0", "1"], ["test", "train"]),
        ("Is Test", ["yes", "no"], ["test", "train"]),
    ],
)
def test_a_column_of_booleans_says_the_splits(table, opened, listed, column, words, splits):
    source = opened(table(column, *words))
    assert splits_of(listed(source)) == splits
    assert f"splits from column {column!r}" in source.notes[0]


def test_a_parquet_column_of_booleans_says_the_splits(tmp_path, opened, listed):
    pq.write_table(pa.table({"label": ["a", "b", "c"], "is_valid": [True, None, False]}), tmp_path / "m.parquet")
    assert splits_of(listed(opened(tmp_path / "m.parquet"))) == ["validation", None, "train"]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["A", "B"], "train=A,validation=B"),
        (["A", "B", "B"], "train=B,validation=A"),
        (["Lernen", "Valid.", "TestX"], "train=Lernen,validation=Valid.,test=TestX"),
        (["0", "1", "2"], "validation=0"),
        (["1", "2", "3"], "validation=2"),
        (["0 a", "1"], "validation=0 a"),
        (["0", "0", "0", "1", "2"], "train=0,validation=1,test=2"),
    ],
)
def test_other_words_are_noted_with_the_flag_that_uses_them(table, opened, listed, words, rule):
    source = opened(table("set", *words))
    assert splits_of(listed(source)) == [None] * len(words)
    assert source.notes == [f"m.csv: column 'set' is not used; if it says the splits, use `splits={rule}`"]
    assert None not in splits_of(listed(opened(table("set", *words), splits=read_splits(rule))))


@pytest.mark.parametrize(
    ("column", "words", "splits"),
    [
        (
            "partition",
            ["Entraînement", "Entraînement", "Validation", "TEST"],
            {"train": "Entraînement", "validation": "Validation", "test": "TEST"},
        ),
        ("set", ["Lern", "val", "test"], {"train": "Lern", "validation": "val", "test": "test"}),
        ("Subset", ["Rest", "test", "other", "Rest"], {"train": "Rest", "test": "test", "other": "other"}),
        ("split", ["0", "0", "1", "2"], {"train": "0", "validation": "1", "test": "2"}),
        ("split", ["2", "2", "1"], {"train": "2", "validation": "1"}),
        ("Split", ["A", "A", "B"], {"train": "A", "validation": "B"}),
    ],
)
def test_words_that_are_not_names_of_splits_are_a_question(table, opened, listed, column, words, splits):
    path = table(column, *words)
    with refuses("unclear_split_column", "splits", "split_column", "input", says=[repr(column)]) as refused:
        opened(path)
    answers = [one.settings for one in refused.value.suggestions]
    # As a command can say it.
    rule = ",".join(f"{split}={word}" for split, word in splits.items())
    assert [answers[0], answers[-1]] == [{"splits": rule}, {"split_column": ""}]
    split_of = {word: split for split, word in splits.items()}
    read = splits_of(listed(opened(path, splits=read_splits(rule))))
    assert read == [split_of[word] for word in words]
    assert splits_of(listed(opened(path, split_column=""))) == [None] * len(words)
    assert splits_of(listed(opened(path, splits=FRACTIONS))) == [None] * len(words)


@pytest.mark.parametrize("words", [["train", "training", "oops"], ["train", "a,b"]])
def test_only_a_mapping_that_works_is_offered(table, opened, words):
    with refuses("unclear_split_column", "splits", "split_column", "input") as refused:
        opened(table("set", *(f'"{word}"' for word in words)))
    assert [one.settings for one in refused.value.suggestions][-1] == {"split_column": ""}
    assert all("splits" not in one.settings for one in refused.value.suggestions)


def test_a_column_called_split_may_have_splits_of_its_own(table, opened, listed):
    assert splits_of(listed(opened(table("split", "train", "unlabeled", "")))) == ["train", "unlabeled", None]
    with refuses("unclear_split_column", "splits", "split_column", "input") as refused:
        opened(table("split", "gallery", "query"))
    assert {"split_column": "split"} in [one.settings for one in refused.value.suggestions]


def test_validate_is_validation_and_case_does_not_count():
    assert [name_split(word) for word in ("validate", "Validate", "DEV")] == ["validation", "validation", "dev"]


@pytest.mark.parametrize("column", ["stage", "purpose", "is it test"])
def test_a_column_of_any_name_says_the_splits_if_all_its_words_are_splits(table, opened, listed, column):
    source = opened(table(column, "training", "val", "", "Test"))
    assert splits_of(listed(source)) == ["training", "val", None, "Test"]
    assert source.notes == [f"m.csv: splits from column {column!r}"]
    assert splits_of(listed(opened(table(column, "training", "val"), split_column=""))) == [None, None]


@pytest.mark.parametrize(
    "words", [["train", "train", "test", "oops"], ["test", "test"], ["train2017", "val2017"], ["train set", "test set"]]
)
def test_a_column_that_may_say_the_splits_is_noted_with_the_flag_that_uses_it(table, opened, listed, words):
    source = opened(table("stage", *words))
    assert splits_of(listed(source)) == [None] * len(words)
    shown = ", ".join(sorted(set(words))[:3])
    assert source.notes == [
        f"m.csv: column 'stage' looks like splits ({shown}) and is not used; if it says them, use `split_column=stage`"
    ]


def test_two_columns_that_say_different_splits_are_asked_about(tmp_path, opened, listed):
    (tmp_path / "m.csv").write_text("label,first,second\ncat,train,test\ndog,test,train\n")
    with refuses("unclear_split_column", "input", "split_column") as refused:
        opened(tmp_path / "m.csv")
    assert [one.settings for one in refused.value.suggestions] == [
        {"split_column": "first"}, {"split_column": "second"},
    ]  # fmt: skip
    assert splits_of(listed(opened(tmp_path / "m.csv", split_column=""))) == [None, None]


def test_classes_that_are_called_like_a_split_are_classes(table, opened, listed):
    source = opened(table("vehicle", "train", "plane", "car", "train"))
    assert (splits_of(listed(source)), source.notes) == ([None] * 4, [])


def test_a_column_that_is_the_label_or_holds_one_value_is_no_split(table, opened, listed):
    assert splits_of(listed(opened(table("set", "a", "b"), label_column="set"))) == [None, None]
    source = opened(table("is_valid", "1", "1"))
    assert (splits_of(listed(source)), source.notes) == ([None, None], [])


def test_folds_are_chosen_by_splits(table, opened, listed):
    source = opened(table("fold", "0", "1", "2", "3", ""), splits=Splits(folders={"0": "validation", "3": "test"}))
    assert splits_of(listed(source)) == ["validation", "train", "train", "test", None]
    whole = opened(table("fold", "0", "1", "2"), splits=Splits(folders={"0": "validation", "1": "train"}))
    samples = list(listed(whole).values())
    assert [sample.split for sample in samples[:2]] == ["validation", "train"]
    assert samples[2].failure == ("unknown_split", "column 'fold' has '2'; expected one of 0, 1")


def test_folds_of_floats_are_numbers(tmp_path, opened, listed):
    pq.write_table(pa.table({"label": ["a", "b"], "fold": [0.0, 1.0]}), tmp_path / "m.parquet")
    source = opened(tmp_path / "m.parquet", splits=Splits(folders={"1": "test"}))
    assert splits_of(listed(source)) == ["train", "test"]


@pytest.mark.parametrize(
    ("column", "fields", "refusal"),
    [
        (
            "x",
            {"splits": Splits(folders={"0": "test"})},
            Refusal("missing_split_column", "splits", "input", "split_column", says=["label, x"]),
        ),
        (
            "fold",
            {"splits": Splits(folders={"7": "test"})},
            Refusal("unknown_split", "splits", "input", says=["7", "'fold'", "a, b"]),
        ),
        ("x", {"split_column": "y"}, Refusal("unknown_column", "split_column", says=["split_column=y"])),
    ],
)
def test_a_column_or_word_that_is_not_there_is_refused(table, opened, column, fields, refusal):
    with refuses(refusal):
        opened(table(column, "a", "b"), **fields)


@pytest.mark.parametrize("column", ["split", "set", "is_valid"])
def test_fractions_of_a_table_that_says_its_splits_are_refused(table, opened, listed, column):
    words = ["1", "0"] if column == "is_valid" else ["train", "test"]
    path = table(column, *words)
    if column != "is_valid":
        with refuses("input_has_splits", "splits", "input", "split_column", says=[f"column '{column}'"]):
            opened(path, splits=FRACTIONS)
    assert splits_of(listed(opened(path, splits=FRACTIONS, split_column=""))) == [None, None]
    with refuses("input_has_splits", "splits", "input", "split_column"):
        opened(path, splits=FRACTIONS, split_column=column)


def test_fractions_of_a_column_with_other_words_ignore_it(table, opened, listed):
    assert splits_of(listed(opened(table("set", "A", "B"), splits=FRACTIONS))) == [None, None]
    assert splits_of(listed(opened(table("split", "train", "train"), splits=FRACTIONS))) == [None, None]


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (["train.csv", "val.csv"], ["train", "validation"]),
        (["labels_test.csv", "labels_train.csv"], ["test", "train"]),
        (["train-0.csv", "train-1.csv", "valid-0.csv"], ["train", "train", "validation"]),
        (["train.csv", "more.csv"], [None, None]),
        (["train-0.csv", "train-1.csv"], [None, None]),
    ],
)
@pytest.mark.parametrize("glob", [True, False])
def test_tables_named_like_splits_are_splits(table, tmp_path, opened, listed, names, splits, glob):
    paths = [table("x", "1", name=name) for name in names]
    source = opened(tmp_path / "*.csv") if glob else opened(*paths)
    listed_splits = {key.split("/")[0]: sample.split for key, sample in listed(source).items()}
    assert listed_splits == dict(zip(names, splits, strict=True))
    assert any("splits from the names of the inputs" in note for note in source.notes) == (None not in splits)


def test_a_split_column_beats_the_names_of_the_tables(table, opened, listed):
    source = opened(table("split", "test", name="train.csv"), table("split", "", name="val.csv"))
    assert splits_of(listed(source)) == ["test", None]


def test_the_request_may_say_the_split_of_each_table(table, tmp_path, opened, listed):
    (tmp_path / "b").mkdir()
    first, second = table("split", "test"), table("x", "1", name="b/m.csv")
    samples = listed(opened(f"train={first}", f"val={second}"))
    assert {key: sample.split for key, sample in samples.items()} == {
        "train/000000000000": "train",
        "validation/000000000000": "validation",
    }
    with refuses("input_without_split", "input"):
        opened(f"train={first}", second)
    with refuses("conflicting_settings", "input", "splits"):
        opened(f"train={first}", splits=FRACTIONS)


@pytest.mark.parametrize("word", ["NaN", "nan", "N/A", "None", "null", "NULL", "?", " ? "])
def test_words_for_missing_values_are_empty_cells(table, opened, listed, word):
    (sample,) = listed(opened(table("kind", word, name="a.csv"), label_column="kind")).values()
    assert (sample.label, sample.failure) == (None, None)
    (sample,) = listed(opened(table("kind", word, name="b.csv"), label_column="kind", missing_values=("-",))).values()
    assert sample.label == word.strip()


def test_words_for_missing_values_are_left_out_of_several_labels(table, opened, listed):
    (sample,) = listed(opened(table("kind", "dog|None|?"), label_column="kind", label_separator="|")).values()
    assert sample.label == ["dog"]


def test_two_columns_of_different_splits_are_a_question(table, opened, listed):
    path = table("subset,partition", "train,test", "test,train")
    with refuses("unclear_split_column", "input", "split_column", says=["'subset'", "'partition'"]) as refused:
        opened(path)
    columns = [one.settings["split_column"] for one in refused.value.suggestions]
    assert [splits_of(listed(opened(path, split_column=one))) for one in columns] == [
        ["train", "test"],
        ["test", "train"],
    ]
    same = opened(table("subset,partition", "train,Training", "test,test"))
    assert splits_of(listed(same)) == ["train", "test"]
