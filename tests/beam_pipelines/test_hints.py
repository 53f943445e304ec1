"""Every hint is executed: what a message offers is taken from its text, and gives the dataset that is meant."""

from __future__ import annotations

import ast
import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.beam_pipelines.build.checks.output import check_output
from beam_tfrecords.beam_pipelines.build.output.previous import open_previous
from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, read_build_spec, show_flags
from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from tests.archive_files import tar_of
from tests.beam_pipelines.listed_records import PICTURE, Records, commands_of, in_train, read, unlabelled
from tests.cases.values import expand
from tests.package_code import package_nodes

ROOT = Path(__file__).parents[2]
_FLAG = re.compile(r"(leave )?--([a-z_]+)(=(?:'[^']*'|[^\s;()'])*)?")


@pytest.fixture(autouse=True)
def empty_working_folder(monkeypatch, tmp_path_factory) -> None:
    """The output `out` of a request may be there in the folder that the tests are started in, as after `make demo`."""
    monkeypatch.chdir(tmp_path_factory.mktemp("working"))


@dataclasses.dataclass(frozen=True)
class Hint:
    """A request, and what a message about it offers.

    Attributes:
      text: of the message as the code has it; what stands from there on is offered.
      flags: of the request; `{folder}` is where the files are.
      files: the images, as in `tree` of a case.
      gives: what each offer gives, in its order; all together give one dataset if there is one for more offers.
      tables: name -> text of the other files.
    """

    text: str
    flags: str
    files: str
    gives: Sequence[Records]
    tables: Mapping[str, str] = dataclasses.field(default_factory=dict)


PETS = "photos/{cat,dog}/{1..2}.jpg"
PETS_READ = in_train(cat=2, dog=2)
FLAT = "{1..4}.jpg"
NAMED = "photos/{cat,dog}_{1..2}.jpg"
TABLE = "--input={folder}/t.csv"
FOLDER = "--input={folder}/photos"
KINDS = ["cat", "dog", "cat", "dog"]
ALL = unlabelled(train=4)


def rows(header: str, *lines: str) -> str:
    return "\n".join([header, *lines, ""])


def table(header: str, *columns: Sequence[object]) -> Mapping[str, str]:
    """A table of four images, `1.jpg` and so on, with more columns."""
    names = [f"{number}.jpg" for number in range(1, 5)]
    return {"t.csv": rows(header, *(",".join(map(str, row)) for row in zip(names, *columns, strict=True)))}


HINTS = [
    # Settings that contradict each other
    Hint("use `image_encoding=png`, `image_encoding=", f"{FOLDER} --channels=4", PETS, [PETS_READ] * 3),
    Hint("; use `image_encoding=png`", f"{FOLDER} --bit_depth=16", PETS, [PETS_READ]),
    Hint("use, for example, `image_size=224`", f"{FOLDER} --resize_mode=crop", PETS, [PETS_READ] * 2),
    Hint("use `image_encoding=raw`", f"{FOLDER} --layout=raw --image_encoding=png", PETS, [PETS_READ]),
    Hint(
        "{} needs fractions; use, for example,",
        f"{FOLDER} --stratify",
        "photos/a/{1..10}.jpg photos/b/{11..20}.jpg",
        [{"train": {"a": 9, "b": 9}, "test": {"a": 1, "b": 1}}],
    ),
    Hint("; leave `{}` out or give a table", f"{FOLDER} --label_column=x", PETS, [PETS_READ]),
    Hint(
        "give a table as `input` or another `layout`",
        f"{FOLDER} --spec={{folder}}/s.yaml",
        PETS,
        [],
        {"s.yaml": "layout: {age: {field: column.age, type: int64}}"},
    ),
    Hint("`label_pattern` or `class_names` says otherwise", "--input={folder}", PETS, []),
    Hint(" needs `versioned`; set both, or leave it out", f"{FOLDER} --keep_versions=2", PETS, [PETS_READ]),
    Hint("; use `versioned`, or choose", f"{FOLDER} --output={{folder}}/versions", PETS, [PETS_READ]),
    Hint("use `overwrite` to replace it", f"{FOLDER} --output={{folder}}/out", PETS, [PETS_READ]),
    Hint(", or `reuse=none`", f"{FOLDER} --reuse={{folder}}", PETS, [PETS_READ]),
    Hint(
        "; use `classes={}` to leave them out",
        f"{FOLDER} --class_names=cat,emu,dog",
        "photos/{cat,dog,c+w}/{1..2}.jpg",
        [PETS_READ],
    ),
    # Patterns
    Hint("needs `label_pattern`; use, for example,", f"{FOLDER} --source=filename_pattern", NAMED, [PETS_READ]),
    Hint("has no group named label; use, for example,", f"{FOLDER} --label_pattern=cat|dog", NAMED, [PETS_READ]),
    Hint(
        "leave it out and name the column",
        f"{TABLE} --label_pattern=(?P<label>cat)",
        FLAT,
        [],
        table("image,label", KINDS),
    ),
    Hint(
        "to leave them out, use",
        f"{FOLDER} --label_pattern=(?P<label>cat|dog)",
        "photos/{images,masks+[1]}/{cat,dog}_{1..2}.jpg",
        [PETS_READ],
    ),
    # Inputs
    Hint("name its format with `source`", "--input={folder}/t.dat", FLAT, [], {"t.dat": "what?"}),
    Hint(
        "some inputs name their split",
        "--input=train={folder}/a+a --input={folder}/b+b",
        "{a,b}+{a,b}/{cat,dog}/1.jpg",
        [{"train": {"cat": 1, "dog": 1}, "validation": {"cat": 1, "dog": 1}}],
    ),
    Hint(
        "expected one split in each input",
        "--input=train={folder}/photos",
        "photos/{train,test}/{cat,dog}/1.jpg",
        [{"train": {"cat": 1, "dog": 1}, "test": {"cat": 1, "dog": 1}}],
    ),
    # Tables: which column is what
    Hint("name another with", TABLE, FLAT, [PETS_READ], table("image,breed,subset", KINDS, ["x", "y", "x", "x"])),
    Hint(
        "name another with",
        TABLE,
        FLAT,
        [PETS_READ, in_train(p=2, q=1, r=1), ALL],
        table("image,my kind,flag,other", KINDS, [0, 1, 1, 1], ["p", "q", "r", "p"]),
    ),
    Hint(
        "name it with `image_column`, or make paths with",
        TABLE,
        FLAT,
        [PETS_READ],
        {"t.csv": rows("mask,photo,label", *(f"m{n}.png,{n}.jpg,{k}" for n, k in enumerate(KINDS, 1)))},
    ),
    Hint(
        "name it with `image_column`, or make paths with",
        TABLE,
        "images/{1..4}.jpg",
        [PETS_READ, ALL],
        {"t.csv": rows("kind,id", *(f"{k},{n}" for n, k in enumerate(KINDS, 1)))},
    ),
    Hint(
        "name another with",
        TABLE,
        FLAT,
        [in_train(**{"['healthy one']": 1, "['rust']": 2, "[]": 1}), ALL],
        table("image,healthy one,rust,is_valid", [1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]),
    ),
    Hint(
        "name it with `image_column`, or make paths with",
        TABLE,
        FLAT,
        [in_train(**{"['bald']": 2, "['old']": 2}), ALL],
        table("image_id,bald,old", [1, -1, 1, -1], [-1, 1, -1, 1]),
    ),
    Hint(
        "name another with",
        TABLE,
        FLAT,
        [PETS_READ],
        table("image,breed,male,old", KINDS, [0, 1, 0, 1], [1, 1, 1, 0]),
    ),
    Hint("name another with", TABLE, FLAT, [ALL], table("image,size", [1, 2, 3, 4])),
    Hint("name another with", TABLE, FLAT, [ALL] * 2, table("image,age", [21, 35.5, 4, 50])),
    Hint("name another with", TABLE, FLAT, [ALL] * 2, table("image,caption", ["a b", "c d", "e", "f"])),
    Hint(
        "name another with",
        TABLE,
        FLAT,
        [unlabelled(train=6)],
        {"t.csv": rows("image,caption", *(f"{n}.jpg,text {n} {k}" for n in (1, 2, 3) for k in "ab"))},
    ),
    Hint(
        "looks like a table, but is not called .csv",
        "--input={folder}/t.txt",
        FLAT,
        [PETS_READ],
        {"t.txt": table("image;label", KINDS)["t.csv"].replace(",", ";")},
    ),
    Hint(
        "looks like a table, but is not called .csv",
        "--input={folder}/t.txt --label_column=my_label",
        FLAT,
        [PETS_READ],
        {"t.txt": table("image my_label", KINDS)["t.csv"].replace(",", " ")},
    ),
    Hint(
        "; use `layout=multilabel`",
        f"{TABLE} --label_separator=| --layout=tfds",
        FLAT,
        [in_train(**{"['cat', 'pet']": 2, "['dog']": 2})],
        table("image,label", ["cat|pet", "dog"] * 2),
    ),
    Hint("or leave `label_type` out", f"{FOLDER} --label_type=float", PETS, [PETS_READ]),
    # Labels
    Hint(
        "give their separator in `label_separator`",
        TABLE,
        FLAT,
        [in_train(**{"['cat', 'pet']": 2, "['cat']": 2}), in_train(**{"cat|pet": 2, "cat": 2})],
        table("image,label", ["cat|pet", "cat", "cat|pet", "cat"]),
    ),
    Hint(
        "give their separator in `label_separator`",
        TABLE,
        FLAT,
        [
            in_train(**{"['traffic', 'light']": 1, "['traffic']": 2, "['light']": 1}),
            in_train(**{"traffic light": 1, "traffic": 2, "light": 1}),
        ],
        table("image,label", ["traffic light", "traffic", "light", "traffic"]),
    ),
    Hint(
        "give their separator in `label_separator`",
        TABLE,
        FLAT,
        [
            in_train(**{str(["cat", "it's, old"]): 1, "['dog']": 2, "[]": 1}),
            in_train(**{"['cat', \"it's, old\"]": 1, "['dog']": 2, "[]": 1}),
        ],
        table("image,label", ['"[\'cat\', ""it\'s, old""]"', "['dog']", "['dog']", "[]"]),
    ),
    Hint(
        "give their separator in `label_separator`",
        TABLE,
        FLAT,
        [in_train(**{"['1', '2']": 2, "['3', '4']": 2}), in_train(**{"[1, 2]": 2, "[3, 4]": 2})],
        table("image,label", ['"[1, 2]"', '"[3, 4]"'] * 2),
    ),
    Hint(
        "; if they are, use `label_separator=",
        TABLE,
        FLAT,
        [in_train(**{"['tench', 'tinca']": 2, "['trout', 'salmo']": 2})],
        table("image,label", ['"tench, tinca"', '"trout, salmo"'] * 2),
    ),
    Hint("use `label_type=float` to store numbers", TABLE, FLAT, [ALL], table("image,label", [0.25, 0.5, 0.25, 0.5])),
    Hint(
        "use `class_names={}`, in the order of the indices",
        TABLE,
        FLAT,
        [in_train(**{"cat 1": 2, "7": 2})],
        table("image,label", ["cat 1", 7] * 2),
    ),
    Hint(
        "use `class_names` with all of them",
        TABLE,
        FLAT,
        [],
        table("image,label", ['"cat, 1"', 7] * 2),
    ),
    # Splits of tables
    Hint(
        "if it says the splits, use",
        TABLE,
        FLAT,
        [{"train": {"cat": 1, "dog": 1}, "validation": {"cat": 1, "dog": 1}}],
        table("image,label,fold", KINDS, ["0 a", "0 a", 1, 1]),
    ),
    Hint(
        "; leave `splits` out to use it, or use",
        f"{TABLE} --splits=train=1",
        FLAT,
        [{"train": {"cat": 1, "dog": 1}, "test": {"cat": 1, "dog": 1}}, PETS_READ],
        table("image,label,split", KINDS, ["train", "train", "test", "test"]),
    ),
    Hint(
        "or give fractions (`splits=train=0.9,test=0.1`)",
        f"{TABLE} --splits=train=a,test=b",
        FLAT,
        [{"train": {"cat": 1, "dog": 2}, "test": {"cat": 1}}],
        table("image,label", KINDS),
    ),
]


@pytest.fixture
def write(tmp_path):
    """Writes the files of a hint; returns the arguments of its request."""

    def make(hint: Hint) -> list[str]:
        for name in (name.replace("+", " ") for word in hint.files.split() for name in expand(word)):
            (tmp_path / "in put" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in put" / name).write_bytes(PICTURE)
        for name, text in hint.tables.items():
            (tmp_path / "in put" / name).write_text(text)
        words = hint.flags.replace("+", " ").split(" --")
        return [f"--{word.removeprefix('--')}".format(folder=tmp_path / "in put") for word in words]

    return make


@pytest.fixture(scope="module")
def built(tmp_path_factory, build, photos):
    """Folders with a dataset: in itself, and in versions of it."""
    folder = tmp_path_factory.mktemp("built")
    flags = [f"--input={photos}", "--classes=cat", "--image_size=8"]
    return build(folder / "out", *flags), build(folder / "versions", *flags, "--versioned")


def say(argv: list[str], folder: Path) -> list[str]:
    """The lines of a refusal, or the notes of what is listed in one line."""
    try:
        spec = read_build_spec(parse_arguments(argv).raw_values)
        check_output(spec)
        open_previous(spec)
        return ["; ".join(map(show_flags, read(argv, folder)[1]))]
    except RequestError as error:
        return explain(error, "convert", argv)


def apply(argv: Sequence[str], message: str) -> Iterator[list[str]]:
    """The command lines that the flags of a message make, as a shell reads them."""
    for leave, name, value in _FLAG.findall(message):
        others = [word for word in argv if word.partition("=")[0] != f"--{name}"]
        if leave:
            yield others
        elif value or SETTINGS[name].is_switch:
            yield [*others, *shlex.split(f"--{name}{value if value.endswith('=,') else value.rstrip(',')}")]


@pytest.mark.parametrize("hint", HINTS, ids=lambda hint: re.sub(r"\W+", " ", hint.text + hint.flags))
def test_what_a_message_offers_gives_what_is_meant(hint, write, built, tmp_path):
    argv = write(hint) if "--output" in hint.flags else [*write(hint), "--output=out"]
    for path in built:
        argv = [f"--output={path}" if word.endswith(f"in put/{path.name}") else word for word in argv]
    line, *more = say(argv, tmp_path / "listing")
    start = hint.text.partition("{}")[0] or hint.text.partition("{}")[2]
    start = start.rpartition("`")[0] if start.count("`") % 2 else start
    _, found, offered = line.partition(show_flags(start))
    assert found, line
    commands = commands_of(more) or list(apply(argv, found + offered))
    for command in commands:
        check_output(read_build_spec(parse_arguments(command).raw_values))
    assert [read(command, tmp_path / str(number))[0] for number, command in enumerate(commands)] == list(hint.gives)


def test_rows_that_share_images_are_grouped_as_the_failure_says(photos, convert, tmp_path):
    paths = sorted(photos.glob("cat/*"))[:3]
    (tmp_path / "t.csv").write_text(rows("image,label", *(f"{path},{label}" for path in paths for label in "ab")))
    flags = [f"--input={tmp_path / 't.csv'}", f"--output={tmp_path / 'out'}", "--allow_outside_root", "--image_size=8"]
    for more in ([], ["--dry_run"]):
        ran = convert(*flags, *more)
        assert ran.code == 3
        assert "conflicting_rows 6" in ran.out + ran.err
        (line,) = [line for line in (ran.out + ran.err).splitlines() if line.startswith("  conflicting_rows")]
        assert "example :" not in line
    (command,) = apply(flags, line)
    assert convert(*command).code == 0
    manifest = open_dataset(tmp_path / "out").manifest
    assert (manifest["records"], manifest["splits"]["train"]["classes"]) == (3, {"a": 3, "b": 3})


def test_a_pattern_for_a_webdataset_is_for_the_folders_of_an_archive(tmp_path):
    members = {"cat_1.jpg": PICTURE, "cat_1.cls": b"0", "dog_2.jpg": PICTURE, "dog_2.cls": b"1"}
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    argv = [f"--input={tmp_path / 'a.tar'}", "--source=webdataset", "--label_pattern=(?P<label>cat|dog)"]
    line, *_ = say([*argv, "--output=out"], tmp_path / "listing")
    _, found, offered = line.partition("leave it out, or use --source=tar")
    (command,) = apply([*argv, "--output=out"], found + offered)
    assert read(command, tmp_path / "again")[0] == in_train(cat=1, dog=1)


# Hints whose request is not refused by the listing -> the test that follows them, or the server that they need.
ELSEWHERE = {
    "if they are captions, use `layout=captions`": "tests/cases/coco.yaml",
    "give TFRecord files as `input`": "tests/cases/kept_records.yaml",
    "and samples are parts of them; use `layout=columns`": "tests/properties/test_kept_records.py",
    "expected 1, 3 or 4, or `layout=array`": "tests/properties/test_pixels.py",
    "expected 1, 3 or 4 channels, or `layout=array`": "tests/properties/test_pixels.py",
    "or a size and a type such as `pixels=28x28:uint8`": "tests/properties/test_pixels.py",
    "; give files of images as `input`": "tests/cases/arrays.yaml",
    "which say their sizes; leave `pixels` out": "tests/properties/test_pixels.py",
    "no feature of the records names image files": "tests/cases/records.yaml",
    "if these are boxes, use `layout=detection`": "tests/cases/coco.yaml",
    "use `layout=detection` for the boxes alone": "tests/cases/voc.yaml",
    "says how many follow a box; use `layout=detection`": "tests/cases/yolo.yaml",
    "has 'keypoints'; use `layout=detection`": "tests/cases/coco.yaml",
    "objects has {}; use `layout=detection`": "tests/cases/coco.yaml",
    "has a polygon; use `layout=detection`": "tests/cases/yolo.yaml",
    "if they are texts such as captions, use `label_type=text`": "tests/transforms/test_labels.py",
    "detection_polygons` or `layout=": "tests/cases/yolo.yaml",
    "; use `layout={}`": "tests/cases/yolo.yaml",
    "if it says them, use `split_column={}`": "tests/cases/columns.yaml",
    "extract it, and give the folder or the archives as `input`": "tests/beam_pipelines/test_archive_input.py",
    "if each is a class, use `label_columns=": "tests/cases/tables.yaml",
    "and there is none; use `versioned` or `reuse`": "tests/beam_pipelines/test_class_order.py",
    "which says the splits itself; leave `splits` out": "tests/cases/coco.yaml",
    "or set `allow_outside_root` to read every file": "tests/cases/yolo.yaml",
    "or use `source={}` to read a folder of images": "test_a_pattern_for_a_webdataset_is_for_the_folders_of_an_archive",
    "the layout has no masks; use `layout=segmentation`": "tests/cases/segmentation.yaml",
    "8 bits hold up to 255; use `mask_bit_depth=16`": "tests/cases/segmentation.yaml",
    "; `array_axes=CHW` or `array_axes=HWC` says it": "tests/beam_pipelines/test_bands.py",
    "which is raw; leave `image_encoding` out, or ask for": "tests/beam_pipelines/test_bands.py",
    "how the names of masks end; leave `mask_suffix` out": "tests/cases/mask_colors.yaml",
    "would be compressed as a photo; use `mask_column=": "tests/cases/several_images.yaml",
    "and these rows have several images; leave it out": "tests/cases/several_images.yaml",
    "only has an effect with `map`; use, for example,": "tests/beam_pipelines/test_map.py",
    "get an intact copy, or use `allow_damaged_containers`": "tests/beam_pipelines/test_damaged_containers.py",
    "or ignore the column with `split_column=`": "tests/cases/columns.yaml",
    "use `requester_pays=PROJECT`": "tests/integration/test_gcs.py",
    "or set the command of Python workers by `environment_type`": "tests/integration/test_flink.py",
    "or set `parallelism` for a job that waits": "tests/integration/test_flink.py",
    "or set `environment_type` and `environment_config`": "tests/beam_pipelines/runners/test_clusters.py",
    "host:port; here set `parallelism`": "tests/beam_pipelines/runners/test_clusters.py",
    "leave `dry_run` out, and use, for example, `limit=100`": "tests/beam_pipelines/test_python_source.py",
    "allow more, or lower `max_image_memory`": "tests/integration/test_memory_kills.py",
    "allow more, or set less with `max_image_memory`": "tests/integration/test_memory_kills.py",
    "or allow a share of the samples with `max_failures`": "tests/beam_pipelines/test_sample_transforms.py",
    "the numbers, and use it as `input` with `image_root`": "tests/cases/lists.yaml",
    "give it in `beam_arguments`, as --{}": "tests/beam_pipelines/settings/test_habits.py",
}
_IS_HINT = re.compile(
    r"\b(?:say|use|leave|lower|set|give|run|read it)\b[^`;.]{0,60}(?:`[a-z_]+[`=]|--[a-z])|\bor `[a-z_]+="
)


def messages() -> Iterator[tuple[str, str]]:
    """The texts in the code that offer flags, and where they are; `{}` stands for what is filled in."""
    for path, nodes in package_nodes().items():
        left_out: set[ast.AST] = set()
        for node in nodes:
            if isinstance(node, ast.Expr | ast.JoinedStr):  # docstrings, and the parts of a text
                left_out.update(ast.iter_child_nodes(node))
            elif isinstance(node, ast.keyword) and node.arg in ("help", "shown_default"):
                left_out.update(ast.walk(node.value))
        for node in set(nodes) - left_out:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in parts)
            if isinstance(node, ast.JoinedStr | ast.Constant) and _IS_HINT.search(text):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_every_message_that_offers_a_flag_is_followed_here():
    known = [hint.text for hint in HINTS] + list(ELSEWHERE)
    found = dict(messages())
    assert len(found) > 25
    assert {place: text for place, text in found.items() if not any(one in text for one in known)} == {}
    assert [one for one in ELSEWHERE if not any(one in text for text in found.values())] == []
