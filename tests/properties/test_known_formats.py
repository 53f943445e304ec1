"""Documents of formats with a mapping of ours: what their content shows, and what a mapping may say."""

from __future__ import annotations

import re

import pytest

from beam_tfrecords import RequestError, build
from tests.cases.loading import Case, read_area
from tests.pictures import picture
from tests.published import read_published
from tests.refusals import expect
from tests.writers import save

CASES = [case for case in read_area("mappings").values() if str(case.settings.get("mapping")) in case.name.split(",")]
# Tables of boxes are read without a mapping: `mappings.yaml`.
TABLES = ("retinanet", "tfod")
# Rows of VisDrone's eight numbers are those of ICDAR's four corners too; further numbers may be its text.
SIMILAR = {"icdar2015": {"dota", "visdrone"}, "sroie": {"dota", "icdar2015"}, "wflw": {"icdar2015"}}


@pytest.fixture
def refusal(tmp_path):
    """Returns the refusal of a build."""

    def build_refused(**settings) -> RequestError:
        with pytest.raises(RequestError) as error:
            build(output=str(tmp_path / "out"), quiet=True, **settings)
        return error.value

    return build_refused


@pytest.mark.parametrize("case", [case for case in CASES if case.settings["mapping"] not in TABLES], ids=str)
def test_a_format_is_recognized_by_its_content(case: Case, tmp_path, refusal):
    folder = tmp_path / "in"
    case.write(folder)
    found = [one.settings for one in refusal(input=str(folder)).suggestions if "mapping" in one.settings]
    name = case.settings["mapping"]
    # Names such as gt_1.txt decide which is offered first.
    assert found[0]["mapping"] == name
    assert {one["mapping"] for one in found} <= {name, *SIMILAR.get(name, ())}
    assert ("layout" in found[0]) == (case.settings.get("layout") not in (None, "imagenet"))


def test_every_mapping_has_a_case(tmp_path, refusal):
    save(tmp_path / "in/a.png", picture("red 8x8"))
    error = refusal(input=f"{tmp_path}/in", mapping="mine")
    expect("unknown_mapping", "mapping").check(error)
    names = re.search(r"or one of (.*)", error.message)[1].split(", ")
    # Those of Pascal VOC are in voc.yaml.
    assert {*names} == {*(case.settings["mapping"] for case in CASES), "voc"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "it is '[1, 2]'; expected keys and values such as `image: file_name`"),
        ("image: a\nimages: b", "unknown key 'images'; expected documents, columns, separator, quotes, samples"),
        ("image: a\nobjects: [{box: x, size: 3}]", "unknown key 'size'; expected objects, class, group, box"),
        ("objects: a", "`image` is missing; expected an expression for the image's name, or `stem`"),
        ("image: a[", "`image: a[` is not a JMESPath expression: "),
        ("image: 3", "`image` is 3; expected a JMESPath expression, as text"),
        ("image: a\nclass: b\nbox: c", "`form` is missing: the numbers of `box` may be xyxy, xywh, cxcywh"),
        ("image: a\nclass: b\nbox: c\nform: yxyx", "`form` is 'yxyx'; expected xyxy, xywh, cxcywh, pixels, polygon"),
        ("image: a\nclass: b\nbox: [c, d]\nform: xyxy", "`box` has 2 expressions; expected 4"),
        ("image: a\nclass: b\nbox: c\nform: xyxy\nunit: mm", "`unit` is 'mm'; expected pixels, share, percent"),
        ("image: a\nobjects: b\nbox: c\nform: xyxy", "`class` is missing; one class of all objects is written as"),
        ("image: a\nobjects: b\nclass: c", "the objects have neither `box` nor `polygon` nor `points`"),
        ("image: a\nclass: b\npolygon: c\nangle: d", "`angle` needs `box`, which the objects do not have"),
        ("image: a\nclass: b\nbox: c\nform: xyxy\nholes: d", "`holes` needs `polygon`, which the objects do not have"),
        ("image: a\nclass: b\nbox: c\nform: xywh\nangle: {value: d, unit: grad}", "`unit: degrees` or radians"),
        ("image: a\nclass: b\nbox: c\nform: xywh\nangle: {value: d, around: top}", "`around: center` or corner"),
        ("image: a\nclass: b\nbox: c\nform: xywh\nangle: {value: d, clockwise: 1}", "`clockwise: true` or false"),
        ("image: a\nclass: b\nbox: c\nform: xywh\nangle: {turn: d}", "unknown key 'turn'"),
        ("image: a\nclass: b\nbox: c\nform: xywh\nangle: {unit: radians}", "`angle` is None; expected a JMESPath"),
        ("image: a\nclass: b\npoints: c\norigin: left", "`origin` is 'left'; expected a number of pixels"),
        ("image: a\nclass: b\npoints: c\norigin: true", "`origin` is True; expected a number of pixels"),
        ("image: a\nclass: b\npoints: c\nunit: share\norigin: 0.5", "`origin` is 0.5; expected a number of pixels"),
        ("image: a\nclass: b\npoints: x1..y5", "x1..y5 is not a range"),
        ("image: a\nclass: b\npoints: c\nattributes: {posture: d}", "unknown key 'posture'; expected difficult"),
        ("image: a\nclass: b\npoints: c\nattributes: d", "`attributes` is 'd'; expected a mapping of difficult"),
        ("image: a\nquotes: false", "`quotes` is False; expected true, or false with `columns`, the names"),
        ("image: a\nquotes: 1", "`quotes` is 1; expected true, or false with `columns`, the names"),
        ("image: a\ncolumns: word", "`columns` is neither a list of the names of cells nor a mapping"),
        ("image: a\nobjects: [word]", "an element of `objects` is 'word'; expected keys such as `objects`, `box`"),
        ("image: a\nsize: [b]", "`size` has 1 expressions; expected 2"),
        ("image: a\nmasks: b", "`masks` is 'b'; expected `folder` and `lists`"),
        ("image: a\nmasks: {files: b}", "unknown key 'files'; expected folder, lists"),
        ("image: [", "expected the node content"),
        ("image: a\nclass: b\nform: xyxy\nobjects: [{box: c}, {box: d, unit: share}]", "pixels and shares; expected"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_is_refused(text, message, tmp_path, refusal):
    save(tmp_path / "in/a.png", picture("red 8x8"))
    save(tmp_path / "my.yaml", text)
    error = refusal(input=f"{tmp_path}/in", mapping=f"{tmp_path}/my.yaml")
    expect("invalid_mapping", *error.settings).check(error)
    assert message in error.message


def test_a_mapping_may_be_misspelt(tmp_path, refusal):
    save(tmp_path / "in/a.png", picture("red 8x8"))
    error = refusal(input=f"{tmp_path}/in", mapping="labelmee")
    assert error.message == "`mapping=labelmee`: did you mean 'labelme'?"


def test_a_changed_mapping_is_another_version(tmp_path):
    read_area("documents")["a mapping of one's own"].write(tmp_path / "in")
    settings = {"input": f"{tmp_path}/in/x.json", "mapping": f"{tmp_path}/in/my.yaml", "layout": "detection"}

    def build_version() -> list[str]:
        dataset = build(output=f"{tmp_path}/out", versioned=True, accept="all", quiet=True, **settings)
        published = read_published(dataset.path)
        return [published.describe(one) for one in published.records]

    first = build_version()
    assert build_version() == first
    assert len([*(tmp_path / "out").glob("*/_SUCCESS")]) == 1
    with (tmp_path / "in/my.yaml").open("a") as file:
        file.write("ignore: name == 'dog'\n")
    assert build_version() != first
