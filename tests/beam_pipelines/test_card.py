"""What stands beside the shards for others: the card, the description for catalogues."""

from __future__ import annotations

import json
import re
import textwrap

import pytest

HOSTILE = "<script>alert(1)<script> [a](b) `c` | *d*"
FLAGS = ("--image_size=16x20", "--resize_mode=exact", "--name=pets", "--splits=train=0.8,test=0.2")
CITATION = "@misc{pets,\n  title={<b>Pets</b>},\n}\n```\n# Not a heading"
SAID = (
    *("--description=- Cats & dogs.", "--license=CC-BY-4.0", "--homepage=https://example.org/pets?a=1"),
    f"--citation={CITATION}",
)


# Builds write no croissant.json otherwise.
pytestmark = pytest.mark.report


@pytest.fixture(scope="module")
def pets(tmp_path_factory, picture, save):
    root = tmp_path_factory.mktemp("card") / "pets"
    for number in range(30):
        save(root / ("cat", HOSTILE)[number % 2] / f"{number}.png", picture(number, 24, 30))
    return root


@pytest.fixture(scope="module")
def out(pets, build):
    return build(pets.parent / "out", f"--input={pets}", *FLAGS, *SAID)


def test_the_card_has_the_numbers_of_the_manifest(out):
    card, manifest = (out / "README.md").read_text(), json.loads((out / "manifest.json").read_text())
    assert card.startswith(
        "# pets\n\n\\- Cats \\& dogs.\n\n- License: CC-BY-4.0\n- Source: <https://example.org/pets?a=1>\n"
    )
    for split, entry in manifest["splits"].items():
        assert f"| {split} | {entry['records']} | 1 | {entry['bytes']:,} |" in card
    for feature, one in manifest["spec"]["layout"].items():
        assert f"| {feature} | {one['type']} | {one['field']} |" in card
    assert "stored as jpeg of 16 x 20 pixels (height x width)" in card
    assert "load(FOLDER, 'train'" in card


def test_the_citation_is_shown_as_it_is_and_tfds_gets_what_was_said(out):
    card = (out / "README.md").read_text()
    assert f"## Citation\n\n{textwrap.indent(CITATION, '    ')}\n" in card
    info = json.loads((out / "dataset_info.json").read_text())
    assert [info["description"], info["citation"], info["redistributionInfo"], info["location"]] == [
        *("- Cats & dogs.", CITATION, {"license": "CC-BY-4.0"}, {"urls": ["https://example.org/pets?a=1"]})
    ]


def test_names_of_the_input_are_no_markup(out):
    card = (out / "README.md").read_text()
    assert r"\<script\>alert\(1\)\<script\> \[a\]\(b\) \`c\` \| \*d\*" in card
    assert "<script" not in card.replace(r"\<script", "")


def test_without_settings_the_card_says_nothing_of_them(pets, tmp_path, build):
    card = (build(tmp_path, f"--input={pets}", *FLAGS) / "README.md").read_text()
    assert not re.search(r"License|\bSource|None|license|Citation", card.replace("batch_size=None", ""))
    croissant = json.loads((tmp_path / "croissant.json").read_text())
    assert {"license", "url", "citeAs"}.isdisjoint(croissant)
    assert croissant["description"] == "30 records as TFRecord files."


def test_what_was_said_is_in_croissant(out):
    croissant = json.loads((out / "croissant.json").read_text())
    assert croissant["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert [croissant[name] for name in ("name", "description", "license", "url", "citeAs")] == [
        *("pets", "- Cats & dogs.", "CC-BY-4.0", "https://example.org/pets?a=1", CITATION)
    ]


@pytest.mark.parametrize(("count", "more"), [(10_000, ["classes"]), (10_001, [])])
def test_the_names_of_very_many_classes_are_left_out(pets, tmp_path, build, count, more):
    (tmp_path / "names.json").write_text(json.dumps(["cat", HOSTILE, *(f"c{number}" for number in range(count - 2))]))
    out = build(tmp_path / "out", f"--input={pets}", *FLAGS, f"--class_names={tmp_path}/names.json")
    found = [one["name"] for one in json.loads((out / "croissant.json").read_text())["recordSet"]]
    assert sorted(found) == sorted(["splits", "records", *more])
