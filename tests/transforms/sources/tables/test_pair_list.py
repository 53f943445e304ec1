"""Lists of pairs of images, as those of LFW."""

from __future__ import annotations

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.refusals import refuses
from tests.source_requests import open_source

SAME = [("Ann_Lee", 1, 2), ("Bo", 3, 1), ("Cy", 10, 2), ("Ann_Lee", 2, 3)]
OTHER = [("Ann_Lee", 1, "Bo", 2), ("Bo", 1, "Cy", 1), ("Cy", 2, "Ann_Lee", 1), ("Ann_Lee", 1, "Cy", 10)]


def name_of(person, number):
    return f"{person}/{person}_{number:04d}.jpg"


def rows_of(first, same, other):
    return "".join("\t".join(map(str, row)) + "\n" for row in ([first] if first else []) + same + other)


@pytest.fixture
def pairs(tmp_path, touch):
    """Writes a list and its images, and opens it."""

    def opened(text, **settings):
        for person in ("Ann_Lee", "Bo", "Cy"):
            touch(*(name_of(person, number) for number in (1, 2, 3, 10)))
        path = tmp_path / "pairs.txt"
        path.write_text(text)
        return open_source(path, source="csv", **settings)

    return opened


@pytest.mark.parametrize("first", [(2, 2), (4,), None])
def test_each_pair_is_a_sample_of_two_images_and_its_label(pairs, first):
    samples = list(pairs(rows_of(first, SAME, OTHER)).samples())
    found = [
        (*(image.uri.split("/", 3)[-1].rpartition("/")[2] for image in one.images.values()), one.label)
        for one in samples
    ]
    expected = [(name_of(a, i), name_of(a, j), "same") for a, i, j in SAME]
    expected += [(name_of(a, i), name_of(b, j), "different") for a, i, b, j in OTHER]
    assert found == [(one.split("/")[1], other.split("/")[1], label) for one, other, label in expected]
    assert len({one.key for one in samples}) == len(samples)
    assert samples[0].key == "Ann_Lee/Ann_Lee_0001.jpg+Ann_Lee_0002.jpg"


def test_folds_are_a_column(pairs):
    source = pairs(rows_of((2, 2), SAME[:2] + OTHER[:2], SAME[2:] + OTHER[2:]), columns=frozenset({"fold"}))
    assert [one.columns["fold"] for one in source.samples()] == ["1"] * 4 + ["2"] * 4


def test_a_damaged_row_is_invalid_and_the_next_ones_are_read(pairs):
    samples = list(pairs(rows_of((1, 4), SAME, [("Bo", "x", "Cy", 1), *OTHER])).samples())
    assert [one.failure for one in samples].count(None) == 8
    assert samples[4].failure == ("invalid_row", "line 6: expected a name and two numbers, or two of each")


def test_a_list_of_pairs_with_another_name_is_offered_as_its_pairs(pairs, tmp_path):
    pairs(rows_of((2, 2), SAME, OTHER))
    with refuses("unknown_format", "input", says=["pairs"]) as refused:
        open_source(tmp_path / "pairs.txt")
    (suggestion,) = refused.value.suggestions
    assert suggestion.settings == {"source": "csv"}


def test_a_list_of_pairs_becomes_records(tmp_path, build, pairs):
    from tests.source_forms import write_form

    write_form("folder", tmp_path / "photos")
    photos = sorted((tmp_path / "photos").glob("*/*"))
    (tmp_path / "pairs.txt").write_text(rows_of((2, 2), SAME, OTHER))
    for number, name in enumerate(
        {name_of(a, i) for a, *rest in SAME for i in rest}
        | {name_of(a, i) for a, i, *_ in OTHER}
        | {name_of(b, j) for *_, b, j in OTHER}
    ):
        path = tmp_path / "lfw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photos[number].read_bytes())
    words = [f"--input={tmp_path / 'pairs.txt'}", "--source=csv", f"--image_root={tmp_path / 'lfw'}", "--image_size=16"]
    manifest = manifest_of(
        build(tmp_path / "out", *words, "--split_column=fold", "--splits=test=2", "--duplicates=keep")
    )
    assert manifest["class_names"] == ["different", "same"]
    assert {split: one["records"] for split, one in manifest["splits"].items()} == {"train": 4, "test": 4}
