"""Conditions over the index: what they mean, and what is refused."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import BuildError
from beam_tfrecords.dataset.index import INDEX_SCHEMA
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.reading.conditions import find_rows, make_condition
from tests.each import each
from tests.refusals import refuses

ROWS = [
    {"key": "a.jpg", "label": "cat", "height": 10, "width": 40, "sharpness": 5.5, "brightness": 0.1, "phash": 5},
    {
        "key": "b=1.jpg",
        "label": "dog",
        "height": 30,
        "width": 40,
        "sharpness": None,
        "brightness": 0.7,
        "phash": 2**63 + 7,
    },
    {"key": "it's.jpg", "label": None, "height": 50, "width": 40, "sharpness": 300.0},
]


def write_index(folder, columns: list[str]) -> Shard:
    return write_rows(folder, ROWS, columns)


def write_rows(folder, of_columns: Sequence[Mapping[str, object]], columns: list[str]) -> Shard:
    texts = dict.fromkeys(("fingerprint", "content_hash", "sample_hash"), "")
    rows = [{**texts, "offset": 0, "length": 0, **row} for row in of_columns]
    schema = pa.schema([field for field in INDEX_SCHEMA if field.name in columns])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "rows.parquet")
    return Shard("train", 0, 1, "shard", len(rows), 0, "", "rows.parquet", None)


@each(
    "text, rows",
    [
        ("label not in ['cat', 'dog']", []),
        ("label not in ()", [0, 1, 2]),
        ("height BETWEEN 10 AND 30 AND label = 'cat'", [0]),
        ("not (height between 20 and (10 + 20)) and width between height - 10 and 2 * height", [2]),
        ("brightness between 0.1 and 0.7", [0, 1]),
        ("key like '%''%'", [2]),
        ("label = 'cat' AND sharpness < 20 OR label IS NULL", [0, 2]),
        ("NOT label NOT LIKE 'c%'", [0]),
        ("label NOT IN ('cat') AND label <> 'cat' AND label != NONE", [1]),
        ("height not in ( 10 ) and label in ('dog')", [1]),
        ("label = null", [2]),
        ("null is not label", [0, 1]),
        ("None != sharpness and height > 10", [2]),
        ("0.1 = brightness", [0]),
        ("brightness in (0.1, 0.7)", [0, 1]),
        ("brightness * 2 = 0.2", [0]),
        ("-brightness = -0.7", [1]),
        ("key = 'b=1.jpg'", [1]),
        ('key = "it\'s.jpg"', [2]),
        ("-height < -40", [2]),
        ("split = 'test' or height = 10", [0]),
        (f"phash = {2**63 + 7}", [1]),
        (f"phash in (5, {2**63 + 7})", [0, 1]),
        ("height in (-1, 50)", [2]),
        ("height + 2147483647 > 2147483660", [1, 2]),
        ("contrast < 1e9", []),
    ],
)
def test_a_text_says_which_rows(tmp_path, text, rows):
    shard = write_index(tmp_path, INDEX_SCHEMA.names)
    assert find_rows(str(tmp_path), shard, make_condition(text)).tolist() == rows


# Texts as SQL writes them: it''s.
TEXTS = ("'cat'", "'it''s'", "'CAT'", "''", "'d'")
PATTERNS = ("'c%'", "'%'", "'_at'", "'%''%'", "''")


def random_value(chance: random.Random, depth: int) -> str:
    """A number that is computed from columns and numbers."""
    if depth == 0 or chance.random() < 0.5:
        return chance.choice(("height", "width", "source_height", str(chance.randint(-3, 60))))
    operator = chance.choice("+-*")
    return f"({random_value(chance, depth - 1)} {operator} {random_value(chance, depth - 1)})"


def random_condition(chance: random.Random, depth: int) -> str:
    """Returns a condition with the same meaning in SQLite."""
    if depth and chance.random() < 0.7:
        one, other = (random_condition(chance, depth - 1) for _ in range(2))
        return chance.choice((f"({one} and {other})", f"({one} or {other})", f"not ({one})"))
    negated = chance.choice(("", "not "))
    texts = ", ".join(chance.choice((*TEXTS, "null")) for _ in range(chance.randint(1, 3)))
    first, second, third = (random_value(chance, 1) for _ in range(3))
    comparison = chance.choice(("<", "<=", ">", ">=", "=", "!=", "<>"))
    return chance.choice(
        (
            f"label {negated}in ({texts})",
            f"label {negated}like {chance.choice(PATTERNS)}",
            f"label is {negated}null",
            f"label {comparison} {chance.choice(TEXTS)}",
            f"sharpness {comparison} {chance.choice((5.5, -1, 300))}",
            f"{first} {negated}between {second} and {third}",
            f"{first} {comparison} {second}",
            f"height {negated}in ({chance.randint(0, 40)}, {chance.randint(-3, 40)})",
            f"source_height {negated}in ({chance.randint(0, 40)}, null)",
        )
    )


@pytest.mark.parametrize("seed", range(4))
def test_conditions_mean_what_they_mean_in_sqlite(tmp_path, seed):
    """Random conditions over columns with and without missing values."""
    chance = random.Random(seed)

    def some(*values: object) -> object:
        return chance.choice((None, *values))

    rows = [
        {
            "key": str(number),
            "label": some("cat", "it's", "CAT", "dog", ""),
            "height": chance.randint(0, 60),
            "width": chance.randint(1, 60),
            "source_height": some(0, 3, 40),
            "sharpness": some(5.5, 300.0, -1.0),
        }
        for number in range(60)
    ]
    shard = write_rows(tmp_path, rows, INDEX_SCHEMA.names)
    database = sqlite3.connect(":memory:")
    database.execute("pragma case_sensitive_like = on")
    database.execute(f"create table rows ({', '.join(rows[0])})")
    database.executemany(
        f"insert into rows values ({', '.join('?' * len(rows[0]))})", [[*row.values()] for row in rows]
    )
    for _ in range(100):
        text = random_condition(chance, 3)
        expected = [int(key) for (key,) in database.execute(f"select key from rows where {text} order by rowid")]
        assert find_rows(str(tmp_path), shard, make_condition(text)).tolist() == expected, text


def test_keywords_and_expressions_say_which_rows(tmp_path):
    shard = write_index(tmp_path, INDEX_SCHEMA.names)
    for condition, rows in (
        (make_condition(label=["cat", "dog"], height=30), [1]),
        (make_condition(pc.field("height") > 10, width=40), [1, 2]),
        (make_condition("height > 10", label={"dog"}), [1]),
        (make_condition(), [0, 1, 2]),
        (make_condition(label=None), [2]),
        (make_condition(label=[]), []),
        (make_condition(label=[None, "cat"]), [0, 2]),
        (make_condition(height=range(20, 40)), [1]),
        (make_condition(phash=2**63 + 7), [1]),
        (make_condition(phash=[5, 2**63 + 7]), [0, 1]),
        (make_condition(sharpness=300), [2]),
        (make_condition(brightness=0.1), [0]),
        (make_condition(brightness=[0.7, 0.2]), [1]),
    ):
        assert find_rows(str(tmp_path), shard, condition).tolist() == rows


def test_columns_of_later_versions_are_null_in_an_index_of_an_earlier_one(tmp_path):
    shard = write_index(tmp_path, ["key", "label"])
    assert find_rows(str(tmp_path), shard, make_condition("sharpness is None")).tolist() == [0, 1, 2]
    assert find_rows(str(tmp_path), shard, make_condition("sharpness > 1 or label = 'dog'")).tolist() == [1]


@each(
    "text",
    [
        "label = 'cat",
        "label = 3",
        "height < 'tall'",
        "label in (height, width)",
        "1 < height < 3",
        "__import__('os').system('true')",
        "[height for height in label]",
        "(" * 5000 + "height" + ")" * 5000,
        "height = 1\nlabel = 2",
        "label = f'{height}'",
        "label = 'it' 's'",
        "height between 10 or 20",
        "height between (10 and 20)",
        "between(height, 3)",
        f"height = {10**30}",
        "None >= sharpness",
        "height + None = 3",
    ],
)
def test_what_is_no_condition_is_refused(text):
    with refuses("invalid_condition", says=["cannot be applied: "]):
        make_condition(text)


@each("column", INDEX_SCHEMA.names)
def test_a_misspelt_column_gets_the_nearest(column):
    for misspelt in (column[:-1], column[0] + column[2:], f"{column}s"):
        said = f"no column '{misspelt}'; {'expected label' if misspelt == 'labels' else 'did you mean '}"
        for texts, named in (([f"{misspelt} is None"], {}), ([], {misspelt: None})):
            if misspelt not in INDEX_SCHEMA.names:
                with refuses("invalid_condition", says=[said]):
                    make_condition(*texts, **named)


@each(
    "text, quoted",
    [
        ("label = cat", "label = 'cat'"),
        ("label != golden retriever and height > 10", "label != 'golden retriever'"),
        ("label IN (hot dog, cat) AND height > 3", "label IN ('hot dog', 'cat')"),
        ("label not in [hot dog]", "label not in ('hot dog')"),
        ("label = 3", "label = '3'"),
        ("key = train/a b.jpg", "key = 'train/a b.jpg'"),
    ],
)
def test_a_text_that_has_lost_its_quotes_is_shown_with_them(text, quoted):
    with refuses("invalid_condition") as raised:
        make_condition(text)
    assert f"a text needs quotes, {quoted}; " in str(raised.value)


@pytest.mark.parametrize(
    "condition", ["phash > -1", "height*height*height*height*height*height > 1", pc.field("phash") == 5]
)
def test_numbers_that_do_not_fit_are_refused(tmp_path, condition):
    shard = write_index(tmp_path, INDEX_SCHEMA.names)
    with refuses("invalid_condition"):
        find_rows(str(tmp_path), shard, make_condition(condition))


def test_an_index_of_another_number_of_rows_is_not_used(tmp_path):
    shard = write_index(tmp_path, INDEX_SCHEMA.names)
    with pytest.raises(BuildError, match="has 3 rows, but its shard has 4 records"):
        find_rows(str(tmp_path), Shard(**{**vars(shard), "records": 4}), make_condition("height > 1"))
