"""TFRecord files of others, as programs write them: each is read in one command, or after one that a refusal offers."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.dataset_records import read_dataset
from tests.beam_pipelines.listed_records import commands_of, list_samples
from tests.each import each
from tests.framing import example_of, framed, sequence_of
from tests.refusals import Refusal

PHOTOS = Path(__file__).parents[1] / "data/photos"
FILES = sorted(PHOTOS.glob("*/*.jpg"))[:6]
NAMES = [path.relative_to(PHOTOS).as_posix().encode() for path in FILES]
IMAGES = [path.read_bytes() for path in FILES]
SIX = range(6)
BOX = {f"image/object/bbox/{side}": [0.1 if side.endswith("min") else 0.5] for side in ("xmin", "ymin", "xmax", "ymax")}
KLASS = {"image/object/class/text": [b"cat"], "image/object/class/label": [1]}
IN_PHOTOS = [f"--image_root={PHOTOS}"]


@dataclasses.dataclass(frozen=True)
class Situation:
    """Records of a program.

    Attributes:
      name: what they are.
      records: the examples, or serialized records.
      images: name of an image -> the photos of each record, that the samples must have; empty for samples without.
      flags: settings that the user needs anyway.
      hint: words of the command that a refusal offers; "" if the records are read at once.
      commands: number of commands that it offers.
      samples: number of samples.
      labels: the labels, in the order of the records; None for samples without.
    """

    name: str
    records: Sequence[Mapping[str, Any] | bytes]
    images: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=lambda: {"image": SIX})
    flags: Sequence[str] = ()
    hint: str = ""
    samples: int = 6
    labels: Sequence[Any] | None = (0, 1, 0, 1, 0, 1)


def rows(make: Callable[[int], Mapping[str, Any]], *, labelled: bool = True) -> list[dict[str, Any]]:
    return [{**make(number), **({"label": number % 2} if labelled else {})} for number in SIX]


NONE: Mapping[str, Sequence[int]] = {}
BACK = SIX[::-1]
SITUATIONS = [
    Situation("an image and a label", rows(lambda n: {"image": IMAGES[n]})),
    Situation(
        "lists of words as labels",
        rows(lambda n: {"image": IMAGES[n], "label": [b"cat", b"dog"][n % 2 :]}, labelled=False),
        labels=(["cat", "dog"], "dog") * 3,
    ),
    Situation("texts", rows(lambda n: {"text": b"%d" % n}), NONE, hint="--layout=same", labels=None),
    Situation("embeddings", rows(lambda n: {"emb": [0.5, n / 2]}), NONE, hint="--layout=same", labels=None),
    Situation("texts as columns", rows(lambda n: {"text": b"a"}), NONE, ["--layout=columns"], labels=None),
    Situation("names of images", rows(lambda n: {"image/filename": NAMES[n]}), flags=IN_PHOTOS),
    Situation("paths under any name", rows(lambda n: {"src": NAMES[n], "id": n}), flags=IN_PHOTOS),
    Situation(
        "the same names twice, and boxes",
        rows(lambda n: {"image/filename": NAMES[n], "image/source_id": NAMES[n], **BOX, **KLASS}, labelled=False),
        flags=IN_PHOTOS,
        labels=None,
    ),
    Situation(
        "ids", rows(lambda n: {"id": NAMES[n][:-4]}), flags=[*IN_PHOTOS, "--image_path={id}.jpg"], labels=(0, 1) * 3
    ),
    Situation(
        "pairs",
        rows(lambda n: {"left": IMAGES[n], "right": IMAGES[5 - n]}),
        {"left": SIX, "right": BACK},
        hint="--image_column=left,right",
    ),
    Situation(
        "several images, of which one is wanted",
        rows(lambda n: {"left": IMAGES[n], "right": IMAGES[5 - n]}),
        flags=["--image_column=right"],
        images={"image": BACK},
    ),
    Situation(
        "moves",
        rows(lambda n: {f"move/{k}/image/encoded": IMAGES[(n + k) % 6] for k in range(3)}),
        {f"move/{k}/image/encoded": [(n + k) % 6 for n in SIX] for k in range(3)},
        hint="--image_column=move/0/image/encoded,move/1/image/encoded,move/2/image/encoded",
    ),
    Situation(
        "pairs of names",
        rows(lambda n: {"left": NAMES[n], "right": NAMES[5 - n]}),
        {"left": SIX, "right": BACK},
        IN_PHOTOS,
        hint="--image_column=left,right",
    ),
    Situation(
        "lists of images",
        rows(lambda n: {"frames": [IMAGES[n], IMAGES[0]]}),
        {"frames[0]": SIX, "frames[1]": [0] * 6},
    ),
    Situation(
        "lists of names",
        rows(lambda n: {"frames": [NAMES[n], NAMES[0]]}),
        {"frames[0]": SIX, "frames[1]": [0] * 6},
        IN_PHOTOS,
    ),
    Situation(
        "annotations alone",
        rows(lambda n: {**BOX, **KLASS, "image/height": 480}, labelled=False),
        NONE,
        hint="--layout=same",
        labels=None,
    ),
]


def write(situation: Situation, folder: Path) -> Path:
    data = [one if isinstance(one, bytes) else example_of(dict(one)) for one in situation.records]
    (folder / "in").mkdir()
    (folder / "in/data.tfrecord").write_bytes(framed(*data))
    return folder / "in"


@each("situation", SITUATIONS, ids=lambda one: one.name)
def test_records_are_read_as_they_are_meant(situation, tmp_path):
    root = write(situation, tmp_path)
    argv = ["--source=tfrecord", f"--input={root}", f"--output={tmp_path / 'out'}", *situation.flags]
    if situation.hint:
        with pytest.raises(RequestError) as refused:
            list_samples(argv, tmp_path / "refused")
        commands = commands_of(explain(refused.value, "convert", argv))
        # Every command that is offered lists all samples without a failure.
        for number, command in enumerate(commands):
            list_samples(command, tmp_path / f"offered{number}")
        (argv,) = (one for one in commands if {*situation.hint.split()} <= {*one})
    listed = list_samples(argv, tmp_path / "listing")
    assert len(listed.refs) == situation.samples
    refs = sorted(listed.refs, key=lambda ref: ref.key)
    assert {name for ref in refs for name in ref.images} == ({*situation.images} or {*refs[0].images})
    if situation.labels is not None:
        assert [ref.label for ref in refs] == list(situation.labels)
    for name, numbers in situation.images.items():
        found = [_read(ref.images[name]) for ref in refs]
        assert found == [IMAGES[number] for number in numbers]
    if "--layout=same" in argv:
        written = [one if isinstance(one, bytes) else example_of(dict(one)) for one in situation.records]
        assert [_read(ref.images["record"]) for ref in refs] == written


def test_a_name_beside_an_image_is_no_second_image(tmp_path, build):
    examples = rows(lambda number: {"image": IMAGES[number], "image/filename": NAMES[number]})
    (tmp_path / "a.tfrecord").write_bytes(framed(*map(example_of, examples)))
    out = build(tmp_path / "out", f"--input={tmp_path / 'a.tfrecord'}", "--image_size=16")
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["notes"], manifest["ledger"]) == ([], [])
    assert {one["filename"] for one in read_dataset(out, "train")} == {NAMES[one].rpartition(b"/")[2] for one in SIX}


def test_a_layout_names_the_images(tmp_path, build):
    root = write(next(one for one in SITUATIONS if one.name == "pairs"), tmp_path)
    spec = tmp_path / "spec.yaml"
    spec.write_text("layout:\n  a: images.left\n  b: images.right\n  c: label.index\n")
    flags = ["--source=tfrecord", f"--input={root}", "--image_encoding=keep", "--name=pairs"]
    out = build(tmp_path / "out", f"--spec={spec}", *flags)
    found = {(one["a"], one["b"], one["c"]) for one in read_dataset(out, "train")}
    assert found == {(IMAGES[number], IMAGES[5 - number], number % 2) for number in SIX}


def test_a_folder_of_images_needs_names_of_images(tmp_path, convert):
    root = write(SITUATIONS[0], tmp_path)
    flags = [f"--output={tmp_path / 'out'}", "--source=tfrecord", f"--input={root}", f"--image_root={tmp_path}"]
    convert(*flags).refused(Refusal("setting_not_applicable", "image_column", "image_root"))
    convert(*flags, "--layout=same").refused(Refusal("setting_not_applicable", "image_column", "image_root"))


def test_sequences_are_refused_by_name(tmp_path, convert):
    (tmp_path / "a.tfrecord").write_bytes(framed(sequence_of({"id": 1}, rgb=[b"a", b"b"])))
    for flags in ((), ("--layout=same",)):
        ran = convert(f"--output={tmp_path / 'out'}", f"--input={tmp_path / 'a.tfrecord'}", *flags)
        ran.refused(Refusal("invalid_file", "input", says=["it is a SequenceExample; expected an Example"]))


def test_a_sequence_among_examples_is_rejected(tmp_path, build):
    records = [*map(example_of, rows(lambda n: {"image": IMAGES[n]})), sequence_of({"label": 1}, image=IMAGES[:2])]
    (tmp_path / "a.tfrecord").write_bytes(framed(*records))
    flags = (f"--input={tmp_path / 'a.tfrecord'}", "--max_failures=0.5", "--name=mixed")
    for name, more in (("images", ["--image_size=16"]), ("same", ["--layout=same"])):
        out = build(tmp_path / name, *flags, *more)
        assert len(read_dataset(out, "train")) == 6
        (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
        assert failure["reason"] == "invalid_row"


def test_labels_in_the_names_of_folders_are_asked_for(tmp_path, convert):
    for name in ("cat", "dog"):
        (tmp_path / f"in/label={name}").mkdir(parents=True)
        (tmp_path / f"in/label={name}/part-r-00000").write_bytes(framed(example_of({"image": IMAGES[0]})))
    ran = convert(f"--output={tmp_path / 'out'}", f"--input={tmp_path / 'in'}", "--source=tfrecord")
    ran.refused(Refusal("missing_label_column", "input", "label_column", says=["folders such as label=… are not read"]))


def _read(place: Any) -> bytes:
    data = Path(place.uri).read_bytes()
    return data[place.offset : place.offset + place.length] if hasattr(place, "offset") else data


def test_pairs_are_features_of_a_dataset(tmp_path, build):
    root = write(next(one for one in SITUATIONS if one.name == "pairs"), tmp_path)
    flags = ["--image_column=left,right", "--image_encoding=keep", "--name=pairs"]
    out = build(tmp_path / "out", "--source=tfrecord", f"--input={root}", *flags)
    found = {(one["left"], one["right"]) for one in read_dataset(out, "train")}
    assert found == {(IMAGES[number], IMAGES[5 - number]) for number in SIX}


def test_boxes_of_records_that_name_their_images_are_stored(tmp_path, build):
    root = write(next(one for one in SITUATIONS if "boxes" in one.name), tmp_path)
    out = build(tmp_path / "out", "--source=tfrecord", f"--input={root}", *IN_PHOTOS, "--image_size=16", "--name=boxes")
    found = read_dataset(out, "train")
    assert [one["image/object/class/text"] for one in found] == [b"cat"] * 6
    assert {one.key for one in found} == {name.decode() for name in NAMES}
    assert any("image/filename" in note for note in json.loads((out / "manifest.json").read_text())["notes"])


def test_a_record_with_a_path_that_leads_out_is_rejected(tmp_path, build):
    (tmp_path / "secret.jpg").write_bytes(IMAGES[0])
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jpg").write_bytes(IMAGES[0])
    examples = [{"path": b"a.jpg", "label": 1}, {"path": b"../secret.jpg", "label": 1}]
    (tmp_path / "in/data.tfrecord").write_bytes(framed(*map(example_of, examples)))
    flags = [f"--input={tmp_path / 'in'}", "--max_failures=1", "--layout=image", "--image_size=16", "--name=paths"]
    out = build(tmp_path / "out", "--source=tfrecord", *flags)
    assert open_dataset(out).num_records == 1
    (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert failure["reason"] == "outside_root"


def test_words_beside_numbers_name_the_classes(tmp_path, build):
    words = [b"dog", b"cat"]
    examples = [{"image/encoded": IMAGES[n], "image/class/label": n % 2, "image/class/text": words[n % 2]} for n in SIX]
    (tmp_path / "a.tfrecord").write_bytes(framed(*map(example_of, examples)))
    out = build(tmp_path / "out", f"--input={tmp_path / 'a.tfrecord'}", "--image_encoding=keep")
    assert open_dataset(out).class_names == ("dog", "cat")
    found = {(one["image"], one["label"]) for one in read_dataset(out, "train")}
    assert found == {(IMAGES[number], number % 2) for number in SIX}


def test_every_place_of_zeros_and_ones_is_a_class(tmp_path, build):
    examples = rows(lambda n: {"image": IMAGES[n], "label": [n % 2, 1 - n % 2, 0, 0]}, labelled=False)
    (tmp_path / "a.tfrecord").write_bytes(framed(*map(example_of, examples)))
    out = build(tmp_path / "out", f"--input={tmp_path / 'a.tfrecord'}", "--image_size=16")
    assert open_dataset(out).class_names == ("0", "1", "2", "3")


def test_boxes_in_pixels_are_read_in_pixels(tmp_path, build):
    sides = {"xmin": 12.0, "ymin": 24.0, "xmax": 36.0, "ymax": 48.0}
    boxes = {f"image/object/bbox/{side}": value for side, value in sides.items()}
    file = io.BytesIO()
    Image.new("RGB", (48, 96)).save(file, "PNG")
    examples = [{"image/encoded": file.getvalue(), **boxes, **KLASS, "image/source_id": n} for n in SIX]
    (tmp_path / "a.tfrecord").write_bytes(framed(*map(example_of, examples)))
    out = build(tmp_path / "out", f"--input={tmp_path / 'a.tfrecord'}", "--image_encoding=keep")
    assert "the boxes are in pixels" in json.loads((out / "manifest.json").read_text())["notes"]
    names = [f"image/object/bbox/{side}" for side in sides]
    found = [[one[name] for name in names] for one in read_dataset(out, "train")]
    assert found == [[0.25, 0.25, 0.75, 0.5]] * 6


def test_a_refusal_offers_the_labels_of_a_joined_table(tmp_path, convert):
    examples = rows(lambda n: {"image": IMAGES[n], "id": b"k%d" % n}, labelled=False)
    (tmp_path / "a.tfrecord").write_bytes(framed(*map(example_of, examples)))
    words = ["cat", "dog"]
    (tmp_path / "labels.csv").write_text("id,label\n" + "".join(f"k{n},{words[n % 2]}\n" for n in SIX))
    flags = [f"--input={tmp_path / 'a.tfrecord'}", "--key_column=id", f"--join={tmp_path / 'labels.csv'}"]
    argv = [f"--output={tmp_path / 'out'}", *flags, "--image_size=16"]
    refusal = convert(*argv).refused(Refusal("missing_label_column", "input", "label_column"))
    offered = refusal.suggestions[0]
    assert offered.settings == {"label_column": "label"}
    listed = list_samples([*argv, "--label_column=label"], tmp_path / "listing")
    assert {ref.key: ref.label for ref in listed.refs} == {f"k{n}": words[n % 2] for n in SIX}


def test_a_refusal_offers_the_column_that_joins_as_the_key(tmp_path, convert):
    (tmp_path / "a.tfrecord").write_bytes(framed(*map(example_of, rows(lambda n: {"image": IMAGES[n], "id": n}))))
    (tmp_path / "ages.csv").write_text("id,age\n" + "".join(f"{n},{n + 20}\n" for n in SIX))
    flags = [f"--input={tmp_path / 'a.tfrecord'}", f"--join={tmp_path / 'ages.csv'}", "--layout=tfds,age:int64"]
    argv = [f"--output={tmp_path / 'out'}", *flags, "--image_size=16"]
    refusal = convert(*argv).refused(Refusal("duplicate_column", "join"))
    assert [one.settings for one in refusal.suggestions] == [{"key_column": "id"}]
    listed = list_samples([*argv, "--key_column=id"], tmp_path / "listing")
    assert {ref.key: ref.columns["age"] for ref in listed.refs} == {str(n): str(n + 20) for n in SIX}
