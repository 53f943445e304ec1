"""Stratified splits: exact within each class, the same on every run."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import build

FRACTIONS = {"train": 0.7, "validation": 0.2, "test": 0.1}


@pytest.fixture
def stratify(tmp_path: Path):
    """Builds rows, and returns the split of each key."""

    def run(rows: Sequence[dict[str, Any]], fractions=FRACTIONS, **settings: Any) -> dict[str, str]:
        table = tmp_path / "rows.jsonl"
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        if "layout" not in settings:
            settings |= {
                "layout": {"key": "key", "label": "label.index"},
                "class_names": sorted({row["label"] for row in rows}),
            }
        settings = {"key_column": "key", "splits": fractions, "seed": 3, **settings}
        dataset = build(table, tmp_path / "out", stratify=True, overwrite=True, quiet=True, report=False, **settings)
        return {record["key"]: split for split in dataset.splits for record in dataset.records(split)}

    return run


@pytest.fixture
def stratified(stratify):
    """Stratifies samples of classes, given the number of each."""

    def run(*, order=1, **classes):
        rows = [
            {"key": f"{name}/{number}", "label": name} for name, count in classes.items() for number in range(count)
        ]
        return stratify(rows[::order])

    return run


def test_the_fractions_hold_within_each_class_to_the_sample(stratified):
    splits = stratified(cat=100, dog=50, rare=10)
    counts = Counter((key.split("/")[0], split) for key, split in splits.items())
    assert [counts["cat", split] for split in FRACTIONS] == [70, 20, 10]
    assert [counts["dog", split] for split in FRACTIONS] == [35, 10, 5]
    assert [counts["rare", split] for split in FRACTIONS] == [7, 2, 1]


def test_the_order_of_the_listing_and_other_classes_change_nothing(stratified):
    one, other = stratified(cat=40, dog=20), stratified(order=-1, cat=40, dog=20, cow=30)
    assert one.items() <= other.items()


def test_a_small_class_gets_the_nearest_counts(stratified):
    assert set(stratified(single=1).values()) == {"train"}
    assert Counter(stratified(few=3).values()) == {"train": 2, "validation": 1}


def test_a_build_of_real_photos_is_stratified(photos, tmp_path, build):
    from tests.beam_pipelines.dataset_checks import manifest_of

    flags = ["--stratify", "--splits=train=0.5,test=0.5", "--image_size=16"]
    out = build(tmp_path / "out", f"--input={photos}", *flags)
    photos_of = Counter(path.parent.name for path in photos.glob("*/*.jpg"))
    splits = manifest_of(out)["splits"]
    for name, count in photos_of.items():
        assert splits["train"]["classes"][name] in (count // 2, -(-count // 2))
        assert splits["train"]["classes"][name] + splits["test"]["classes"][name] == count


def patients(seed):
    """Yields patients with a few images each, of which most have the patient's own class."""
    rng = random.Random(seed)
    for patient in range(60):
        own = rng.choices(["healthy", "ill", "rare"], [70, 25, 5])[0]
        for number in range(rng.randint(1, 15)):
            yield f"p{patient:02d}", f"p{patient:02d}/{number}.jpg", own if rng.random() < 0.8 else "healthy"


def worst_share(splits, fractions):
    """Returns the largest difference of a split's share of a class from its fraction; splits: (split, class) pairs."""
    counts, totals = Counter(splits), Counter(label for _, label in splits)
    return max(abs(counts[split, label] / totals[label] - fractions[split]) for split in fractions for label in totals)


@pytest.fixture
def grouped(stratify):
    def run(samples, fractions, *, seed=3):
        rows = [{"key": key, "label": label, "patient": group} for group, key, label in samples]
        return stratify(rows, fractions, group_column="patient", seed=seed)

    return run


# Largest difference of a fold's share of a class from a fifth, by `StratifiedGroupKFold(5, shuffle=True,
# random_state=0)` of scikit-learn 1.9.1, with the classes, groups and order of `patients(seed)`.
SCIKIT_LEARN = {0: 0.15, 1: 0.02, 2: 0.2643, 3: 0.2286, 4: 0.2, 11: 0.2483}


@pytest.mark.parametrize("seed", SCIKIT_LEARN)
def test_groups_stay_whole_and_classes_are_as_even_as_those_of_scikit_learn(grouped, seed):
    folds = {f"fold{number}": 0.2 for number in range(5)}
    samples = [*patients(seed)]
    splits = grouped(samples, folds)
    of_group = {(group, splits[key]) for group, key, _ in samples}
    assert len(of_group) == len({group for group, *_ in samples})
    assert worst_share([(splits[key], label) for _, key, label in samples], folds) <= SCIKIT_LEARN[seed] + 0.0001


def test_groups_are_placed_alike_whatever_the_order_and_the_seed_decides_only_between_equals(grouped):
    samples = [*patients(1)]
    assert grouped(samples, FRACTIONS) == grouped(samples[::-1], FRACTIONS)
    one_each = [(str(number), f"{number}.jpg", "cat") for number in range(40)]
    first, second = (grouped(one_each, FRACTIONS, seed=seed) for seed in (1, 2))
    assert first != second
    assert Counter(first.values()) == Counter(second.values()) == {"train": 28, "validation": 8, "test": 4}


def test_samples_without_a_group_are_divided_exactly_beside_groups(grouped):
    alone = [(None, f"{number}.jpg", "cat") for number in range(50)]
    splits = grouped([*alone, *(("g", f"g/{number}.jpg", "cat") for number in range(50))], FRACTIONS)
    assert Counter(splits[key] for _, key, _ in alone) == {"train": 35, "validation": 10, "test": 5}
    assert len({split for key, split in splits.items() if key.startswith("g/")}) == 1


def test_several_heads_are_balanced_one_by_one(stratify):
    rng = random.Random(5)
    rows = [{"key": f"{number}.jpg", "gender": rng.choice("fm"), "age": rng.randint(1, 80)} for number in range(400)]
    heads = {name: {"field": f"column.{name}", "type": "class"} for name in ("age", "gender")}
    splits = stratify(rows, layout={"key": "key", **heads})
    samples = Counter(splits.values())
    assert all(abs(samples[split] - 400 * share) <= 2 for split, share in FRACTIONS.items())
    of_gender = Counter((splits[row["key"]], row["gender"]) for row in rows)
    women = sum(row["gender"] == "f" for row in rows)
    assert all(abs(of_gender[split, "f"] - women * share) <= 2 for split, share in FRACTIONS.items())
