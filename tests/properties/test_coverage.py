"""What an offer says it uses and leaves is what its command gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beam_tfrecords import RequestError, plan
from tests.pictures import picture
from tests.writers import save

IMAGE = re.compile(r"([\d,]+)(?: of ([\d,]+))? images?")


def save_image(path: Path, number: int) -> None:
    save(path, picture(f"red {8 + number}x6"))


def offers_of(folder: Path) -> dict[str, tuple[str, dict[str, object]]]:
    """Meaning of each offer -> what it gives, and its settings."""
    with pytest.raises(RequestError) as refused:
        plan(input=str(folder), output=str(folder.parent / "out"))
    return {one.meaning: (one.gives, dict(one.settings)) for one in refused.value.suggestions}


def test_an_offer_names_the_images_that_it_leaves(tmp_path: Path) -> None:
    for folder in ("trainA", "trainB", "testA", "testB"):
        for number in range(3):
            save_image(tmp_path / "in" / folder / f"{number}{folder}.png", number)
    offers = offers_of(tmp_path / "in")
    assert (
        offers["the images in testA, trainA, without labels"][0] == "6 of 12 images in 2 splits; leaves testB, trainB"
    )


def test_an_offer_names_the_masks_that_it_leaves(tmp_path: Path) -> None:
    for number in range(4):
        save_image(tmp_path / "in" / f"images/{number:03}.png", 0)
        for family in ("MA", "EX"):
            save(tmp_path / "in" / f"masks/{number:03}_{family}.png", picture("mask 8x6 1=0,0,4,3"))
    gives, _ = offers_of(tmp_path / "in")["the images with their masks"]
    assert re.fullmatch(r"4 of 8 images, 4 masks; leaves masks/\*_(MA|EX)\.png", gives)


def test_counts_of_an_offer_are_those_of_its_dataset(tmp_path: Path) -> None:
    for split, count in (("train", 5), ("val", 3)):
        for number in range(count):
            save_image(tmp_path / "in" / split / f"{split}{number}.png", number)
    for meaning, (gives, settings) in offers_of(tmp_path / "in").items():
        settings = {"input": str(tmp_path / "in"), "output": str(tmp_path / "out"), **settings}
        planned = plan(**settings)
        counted = IMAGE.search(gives)
        assert counted is not None, meaning
        assert int(counted[1]) == planned.num_samples


def test_classes_that_hardly_repeat_come_last(tmp_path: Path) -> None:
    rows = ["image,name,kind", *(f"{number}.png,word {number},{'ab'[number % 2]}" for number in range(12))]
    for number in range(12):
        save_image(tmp_path / f"{number}.png", number)
    (tmp_path / "t.csv").write_text("\n".join(rows))
    offers = offers_of(tmp_path / "t.csv")
    gives = [one for one, _ in offers.values()]
    assert "nearly each has a class of its own" not in gives[0]


def test_rows_of_objects_are_no_samples_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "in" / "shop"
    for number in range(4):
        save_image(folder / f"images/{number}.png", 20)
    rows = [f"{number}.png,{1 + side},1,{5 + side},5,item,28,6\n" for number in range(4) for side in range(3)]
    save(folder / "marks.csv", "".join(rows))
    gives = [one for one, _ in offers_of(tmp_path / "in").values()]
    assert gives[0] == "4 images, 12 objects, 1 class"


def test_an_offer_says_that_each_split_has_a_class_of_its_own(tmp_path: Path) -> None:
    for folder, split in (("drive1", "train"), ("drive2", "test")):
        for number in range(3):
            save_image(tmp_path / "in" / folder / f"{number}{split}.png", number)
        names = [f"{folder}/{number}{split}.png\n" for number in range(3)]
        save(tmp_path / "in" / f"{split}.txt", "".join(names))
    gives = [one for one, _ in offers_of(tmp_path / "in").values()]
    assert "6 images in 2 splits, 2 classes; each split has a class of its own" in gives


def test_an_offer_names_the_folders_that_look_like_masks(tmp_path: Path) -> None:
    for of in ("cat", "dog"):
        for number in range(2):
            save(tmp_path / "in" / of / f"rgb/{number}.png", picture(f"scene 16x16 {number}"))
            save(tmp_path / "in" / of / f"heat/{number}.png", picture(f"scene 16x16 {number} dark"))
            save(tmp_path / "in" / of / f"drawing/{number}_0.png", picture("mask 16x16 1=0,0,4,4"))
    gives, _ = offers_of(tmp_path / "in")["the classes cat, dog"]
    assert gives == "12 images, 2 classes; the images of drawing look like masks"
