"""Class names that a request or a file gives."""

from __future__ import annotations

import json

import pytest

from beam_tfrecords.transforms.class_list import (
    ClassList,
    fit_classes,
    list_classes,
    parse_class_file,
    parse_class_words,
)
from tests.refusals import refuses

NAMES = ("cat", "dog", "emu")
FROM_0, FROM_1, GAPS = (0, 1, 2), (1, 2, 3), (1, 3, 90)
LABEL_TO_ID = dict(zip(NAMES, FROM_0, strict=True))
CATEGORIES = [{"id": number, "name": name} for number, name in zip(GAPS, NAMES, strict=True)]
IDS = ("n02121808", "n02084071", "n01518878")

# File name, text, numbers and ids of the classes `NAMES`.
FILES = [
    ("classes.txt", "cat\ndog\nemu\n", (), ()),
    ("classes.txt", "\ufeff# pets\r\n\r\ncat\r\n  dog  \r\n\r\nemu", (), ()),
    ("classes.txt", "cat # felis\ndog\nemu", (), ()),
    ("classes.txt", "name\ncat\ndog\nemu", (), ()),
    ("labels.txt", "0:cat\n1:dog\n2:emu\n", FROM_0, ()),
    ("labels.txt", "0 cat\n1 dog\n2 emu\n", FROM_0, ()),
    ("labels.txt", "1\tcat\n2\tdog\n3\temu\n", FROM_1, ()),
    ("labels.txt", "1. cat\n2. dog\n3. emu\n", FROM_1, ()),
    ("labels.txt", "90,emu\n1,cat\n3,dog\n", GAPS, ()),
    ("categories.txt", "cat 1\ndog 2\nemu 3", FROM_1, ()),
    ("words.txt", "n02121808\tcat\nn02084071\tdog\nn01518878\temu", (), IDS),
    ("boxable.csv", "/m/01yrx,cat\n/m/0bt9lr,dog\n/m/0dgw9r,emu", (), ("/m/01yrx", "/m/0bt9lr", "/m/0dgw9r")),
    ("v7.csv", "LabelName,DisplayName\n/m/01,cat\n/m/02,dog\n/m/03,emu", (), ("/m/01", "/m/02", "/m/03")),
    ("synsets.csv", "wnid,words\nn02121808,cat\nn02084071,dog\nn01518878,emu", (), IDS),
    ("a.csv", "name,id\nemu,90\ncat,1\ndog,3", GAPS, ()),
    ("a.csv", "class,label,count\ncat,0,5\ndog,1,5\nemu,2,7", FROM_0, ()),
    ("a.csv", 'ClassId,SignName\n0,"cat"\n1,"dog"\n2,"emu"', FROM_0, ()),
    ("a.csv", "name,r,g,b\ncat,1,2,3\ndog,4,5,6\nemu,7,8,9", (), ()),
    ("a.csv", "cat,0\ndog,1\nemu,2", FROM_0, ()),
    ("a.csv", "id;name\n0;cat\n1;dog\n2;emu", FROM_0, ()),
    ("a.csv", "original,encoded\ncat,0\ndog,1\nemu,2", FROM_0, ()),
    ("a.csv", "class,meaning\n0,cat\n1,dog\n2,emu", FROM_0, ()),
    ("a.csv", "name,count\ncat,1\ndog,2\nemu,3", (), ()),
    ("a.tsv", "cat\t1\ndog\t2\nemu\t3", FROM_1, ()),
    ("a.json", '[\n"cat",\n"dog",\n"emu"\n]\n', (), ()),
    ("a.json", '[{"id": 3, "name": "dog"}, {"id": 1, "name": "cat"}, {"id": 90, "name": "emu"}]', GAPS, ()),
    ("a.json", '[["0", "cat"], ["1", "dog"], ["2", "emu"]]', FROM_0, ()),
    ("a.json", '[["cat", "1"], ["dog", "2"], ["emu", "3"]]', FROM_1, ()),
    ("a.json", json.dumps({"label": [{"index": number, "label": name} for number, name in enumerate(NAMES)]}), FROM_0,
     ()),
    ("a.json", '{"animals": [["1", "cat"], ["2", "dog"], ["3", "emu"]]}', FROM_1, ()),
    ("a.json", '{"name": "cat"}\n{"name": "dog"}\n{"name": "emu"}', (), ()),
    ("class_indices.json", '{"dog": 1, "emu": 2, "cat": 0}', FROM_0, ()),
    ("cat_to_name.json", '{"3": "emu", "1": "cat", "2": "dog"}', FROM_1, ()),
    ("index.json", '{"0": ["n02121808", "cat"], "1": ["n02084071", "dog"], "2": ["n01518878", "emu"]}', FROM_0, IDS),
    ("synsets.json", '{"n02121808": "cat", "n02084071": "dog", "n01518878": "emu"}', (), IDS),
    ("a.json", '{"cat": {"id": 1}, "dog": {"id": 2}, "emu": {"id": 3}}', FROM_1, ()),
    ("a.json", '{"nc": 3, "names": ["cat", "dog", "emu"]}', (), ()),
    ("a.json", json.dumps({"info": {}, "categories": CATEGORIES}), GAPS, ()),
    ("a.json", json.dumps({"label2id": LABEL_TO_ID, "id2label": dict(enumerate(NAMES))}), FROM_0, ()),
    ("a.json", "{0: 'cat', 1: 'dog', 2: 'emu'}", FROM_0, ()),
    ("data.yaml", "train: images\nnc: 3\nnames: [cat, dog, emu]", (), ()),
    ("data.yaml", "names:\n  0: cat\n  1: dog\n  2: emu", FROM_0, ()),
    ("names.txt", "names:\n- cat\n- dog\n- emu", (), ()),
    ("a.yml", "cat: 0\ndog: 1\nemu: 2", FROM_0, ()),
    ("a.pbtxt", "item { id: 1 name: 'cat' }\nitem { id: 2 name: \"dog\" }\nitem {\n name: 'emu'\n id: 3 }", FROM_1, ()),
    ("a.pbtxt", "item { id: 3 name: '/m/1' display_name: 'dog' } item { id: 1 name: 'cat'} item { id: 90 name: 'emu'}",
     GAPS, ()),
    ("a.txt", "item {\n id: 1\n name: 'cat'\n}\nitem {\n id: 2\n name: 'dog' }\nitem{ id: 3 name: 'emu'}", FROM_1, ()),
]  # fmt: skip


@pytest.mark.parametrize(("file", "text", "numbers", "ids"), FILES)
def test_files_of_every_form_give_the_same_classes(file, text, numbers, ids):
    found = parse_class_file(text.encode(), file)
    assert found == ClassList(NAMES, numbers, ids)
    assert list_classes(json.loads(json.dumps(found.to_json()))) == found


PLAIN = [
    "Boeing 737\nAirbus 320",  # Numbers at the end.
    "class 0\nclass 1\nclass 2",
    "0\n1\n2",
    "tench, Tinca tinca\ngoldfish, Carassius auratus",
    "n01440764\nn01443537",
    "001.Albatross\n002.Auklet",
    "7 up\ncola\npepsi",
    "C#\nC++",
]


@pytest.mark.parametrize("text", PLAIN)
def test_names_with_numbers_and_marks_stay_whole(text):
    assert parse_class_file(text.encode(), "classes.txt") == ClassList(tuple(text.split("\n")))


REFUSED = [
    ("a.txt", b"", "empty"),
    ("a.txt", b"\xff\xfecat\0\xe9", "UTF-8|name"),
    ("a.txt", b"cat\0dog", "binary"),
    ("a.txt", b"0,cat,1,dog", "not a name"),
    ("a.csv", b"cat,n02121808", "not a name"),
    ("a.txt", b"epochs = many\nlr = low", "epochs"),
    ("a.txt", b"0|cat|Katze\n1|dog", "not a name"),
    ("a.json", b'[["cat", "Katze"], ["dog", "Hund"]]', "Katze"),
    ("a.json", b'[["1", "2"], ["2", "3"]]', "2"),
    ("a.json", b'{"animals": ["cat", "dog"]}', "two values"),
    ("a.txt", b"1.jpg 0\n2.jpg 1", "lists images"),
    ("a.txt", b"0 cat\n1 dog\nemu", "emu"),
    ("a.txt", b"2 door\n4 wheel", "2 door"),
    ("a.txt", b"0:cat\n0:dog", "number"),
    ("a.csv", b"a,b\nc,d", "unclear"),
    ("a.csv", b"name,id\ncat,0,5", "cells"),
    ("a.csv", b"name,id", "no rows"),
    ("a.json", b"[", "JSON"),
    ("a.json", b'"cat"', "a text"),
    ("a.json", b'{"cat": 0, "dog": 0}', "same number"),
    ("a.json", b'{"cat": 0, "cat": 1}', "twice"),
    ("a.json", b'{"cat": 0.5, "dog": 1}', "fraction"),
    ("a.json", b'[{"id": 1}]', "without a name"),
    ("a.json", b'{"names": ["cat"], "classes": ["dog"]}', "different classes"),
    ("a.yaml", b"names: [yes, no]", "quotes"),
    ("a.yaml", b"names: x.names", "x.names"),
    ("a.pbtxt", b"model { }", "StringIntLabelMap"),
]


# Forms of other programs, which are no names.
OTHERS = [
    ("labels.txt", "cat: 0\ndog: 1\nemu: 2"),
    ("labels.txt", "Class_1 - cat\nClass_2 - dog\nClass_3 - emu"),
    ("labels.txt", "0|cat|Katze\n1|dog|Hund\n2|emu|Emu"),
    ("labels.txt", "cat|Katze|0\ndog|Hund|1\nemu|Emu|2"),
    ("labels.txt", "nc: 3\n0: cat\n1: dog\n2: emu"),
    ("labels.txt", "cat,dog,emu"),
    ("labels.txt", "0:cat,1:dog,2:emu"),
    ("a.txt", "encoded;original\n0;cat\n1;dog\n2;emu"),
    ("a.txt", "LabelName,DisplayName\n/m/01,cat\n/m/02,dog\n/m/03,emu"),
]


@pytest.mark.parametrize(("file", "text"), OTHERS)
def test_other_forms_are_refused_with_the_forms_that_are_read(file, text):
    with pytest.raises(ValueError, match="expected a name per line, or `number: name` lines"):
        parse_class_file(text.encode(), file)


@pytest.mark.parametrize(("file", "data", "says"), REFUSED)
def test_other_files_are_refused_with_what_was_found(file, data, says):
    with pytest.raises(ValueError, match=says):
        parse_class_file(data, file)


def names_of(classes: ClassList, labels, *, numbers_are_indices=True):
    fitted = fit_classes(classes, labels, numbers_are_indices=numbers_are_indices)
    found = [fitted.find(label) for label in labels]
    return [None if index is None else fitted.names[index] for index in found]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 2], ["cat", "dog", "emu"]),
        ([0, 2], ["cat", "emu"]),
        ([1, 2, 3], ["cat", "dog", "emu"]),
        (["3", "1"], ["emu", "cat"]),
        ([3.0, 2.0], ["emu", "dog"]),
        ([-1, 0, 2], [None, "cat", "emu"]),
        (["001", "002", "003"], ["cat", "dog", "emu"]),
        (["000", "002"], ["cat", "emu"]),
        (["dog", "emu"], ["dog", "emu"]),
    ],
)
def test_numbers_count_from_the_number_that_fits_all_labels(labels, expected):
    assert names_of(ClassList(NAMES), labels) == expected


@pytest.mark.parametrize("labels", [[1], [1, 2], ["2", "1"], [1, 2, 255], [-1, 1], ["001", "002"]])
def test_numbers_that_fit_both_are_asked_about(labels):
    with refuses("first_class_number", "class_names") as refused:
        names_of(ClassList(NAMES), labels)
    suggested = [reading.settings["class_names"] for reading in refused.value.suggestions]
    assert suggested == ["1:cat,2:dog,3:emu", "0:cat,1:dog,2:emu"]


def test_the_message_has_the_smallest_and_the_largest_number():
    with refuses("first_class_number", "class_names", says=["from -1 to 1"]):
        names_of(ClassList(NAMES), [-1, 1])


@pytest.mark.parametrize("labels", [[0, 1, 2], ["0", "2"], ["000", "001", "002"], [-1, 0, 1]])
def test_numbers_from_0_with_a_list_from_1_are_asked_about(labels):
    with refuses("first_class_number", "class_names") as refused:
        names_of(ClassList(NAMES, FROM_1), labels)
    suggested = [reading.settings["class_names"] for reading in refused.value.suggestions]
    assert suggested == ["0:cat,1:dog,2:emu", "0:background,1:cat,2:dog,3:emu"]
    for text in suggested:
        found = names_of(parse_class_words(text.split(",")), labels)
        assert [name is None for name in found] == [label == -1 for label in labels]


def test_numbers_that_a_list_from_1_has_are_not_asked_about():
    assert names_of(ClassList(NAMES, FROM_1), [0, 3, 1]) == [None, "emu", "cat"]
    assert names_of(ClassList(NAMES, FROM_1), ["001", "002"]) == ["cat", "dog"]
    assert names_of(ClassList(NAMES, GAPS), [0, 1]) == [None, "cat"]


def test_a_number_more_than_names_is_refused():
    with refuses("unknown_class", "class_names"):
        names_of(ClassList(NAMES), [0, 1, 2, 3])


def test_a_background_has_the_number_0():
    assert names_of(ClassList(("background", "cat", "dog")), [1, 2]) == ["cat", "dog"]


def test_numbers_of_the_list_are_those_of_the_labels():
    classes = ClassList(NAMES, GAPS, IDS)
    assert names_of(classes, [90, "3", 1, 2, "n02084071", "emu"]) == ["emu", "dog", "cat", None, "dog", "emu"]
    assert names_of(classes, ["3", "n01518878"], numbers_are_indices=False) == ["dog", "emu"]


def test_numbers_of_folders_are_names():
    assert names_of(ClassList(NAMES), ["1", "2"], numbers_are_indices=False) == [None, None]
