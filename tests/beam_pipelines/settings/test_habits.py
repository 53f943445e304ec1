"""What people type from habit, tried on the command line, in a spec file and in Python: the right answer or none."""

from __future__ import annotations

import json
import random
import string

import hypothesis
import pytest
from hypothesis import strategies as st

from beam_tfrecords.beam_pipelines.build.call_arguments import read_arguments
from beam_tfrecords.beam_pipelines.commands.cli import _COMMANDS
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.settings.beam_flags import add_beam_flags, flag_names
from beam_tfrecords.beam_pipelines.settings.command_line import Parser, parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, show_flags
from beam_tfrecords.beam_pipelines.settings.inherited_settings import read_request
from beam_tfrecords.errors import RequestError
from beam_tfrecords.habits import better_value, find_command, find_near
from tests.each import each
from tests.refusals import refuses

# What is typed -> what it means, a part of the advice, or "" where an answer would be a guess.
NAMES = {
    "force": "overwrite",
    "overwrite_existing": "overwrite",
    "exist_ok=true": "overwrite",
    "clobber": "overwrite",
    "in=photos": "input",
    "input_dir=photos": "input",
    "data_dir=photos": "input",
    "images_dir=photos": "input",
    "directory=photos": "input",
    "annotations=a.json": "input",
    "out=built": "output",
    "output_dir=built": "output",
    "outdir=built": "output",
    "output_folder=built": "output",
    "dst=built": "output",
    "train_dir=photos/train": "input=train=photos/train",
    "val_dir=photos/val": "input=validation=photos/val",
    "size=256": "image_size",
    "resize=224": "image_size",
    "target_size=224,224": "image_size=224",
    "target_size=(224, 160)": "image_size=224x160",
    "imgsz=640": "image_size",
    "scale=0.5": "",
    "crop=224": "image_size=224",
    "center_crop": "resize_mode=crop",
    "pad_to_aspect_ratio=True": "resize_mode=pad",
    "shortest_edge=256": "image_size=256",
    "resize_only_if_bigger": "upscale=false",
    "resize_only_if_bigger=False": "",
    "interpolation=BICUBIC": "resample=bicubic",
    "interpolation=area": "resample=box",
    "interpolation=mitchellcubic": "",
    "quality=90": "jpeg_quality",
    "encode_quality=95": "jpeg_quality",
    "quality=high": "",
    "format=jpg": "image_encoding=jpeg",
    "encode_format=png": "image_encoding=png",
    "output_format=tfrecord": "",
    "file_format=tfrecord": "always TFRecord",
    "skip_reencode": "image_encoding=keep",
    "color_mode=grayscale": "channels=1",
    "color_mode=rgba": "channels=4",
    "grayscale": "channels=1",
    "dtype=float32": "array_type=float32",
    "data_format=channels_first": "array_axes=CHW",
    "validation_split=0.2": "splits=train=0.8,validation=0.2",
    "val_split=0.25": "splits=train=0.75,validation=0.25",
    "valid_pct=10": "splits=train=0.9,validation=0.1",
    "test_size=0.3": "splits=train=0.7,test=0.3",
    "train_size=0.9": "splits=train=0.9,validation=0.1",
    "val_split=many": "",
    "val_split=False": "",
    "split_ratio=80/20": "splits=train=0.8,validation=0.2",
    "ratio=0.8,0.1,0.1": "splits=train=0.8,validation=0.1,test=0.1",
    "split=train": "",
    "random_state=42": "seed",
    "shuffle": "every build shuffles",
    "shuffle_seed=3": "seed",
    "resume": "resumes an interrupted build",
    "skip_existing": "resumes an interrupted build",
    "batch_size=32": "when it is read",
    "prefetch=2": "when it is read",
    "drop_remainder": "when it is read",
    "horizontal_flip": "when you train",
    "rescale=255": "when you train",
    "label_map=names.txt": "class_names",
    "id2label=a,b": "class_names",
    "labels_from=labels.csv": "columns of a table",
    "label_mode=categorical": "label_type=class",
    "class_mode=binary": "label_type=class",
    "x_col=path": "image_column",
    "y_col=label": "label_column",
    "caption_col=text": "label_column",
    "sep=;": "delimiter",
    "img_prefix=train": "image_root",
    "masks_dir=masks": "mask_root",
    "bbox_format=coco": "box_format=xywh",
    "bbox_format=yxyx": "",
    "max_samples=100": "limit",
    "num_examples=100": "limit",
    "max_images=many": "",
    "max_shard_size=500MB": "shard_size",
    "maxsize=1e9": "shard_size=1000000000",
    "train_shards=8": "num_shards",
    "number_sample_per_shard=1000": "shard_size",
    "maxcount=1000": "shard_size",
    "compression_type=GZIP": "compression=gzip",
    "compression_type=ZLIB": "",
    "gzip": "compression=gzip",
    "dedup": "duplicates=drop",
    "max_errors=0.1": "max_failures",
    "ignore_errors=True": "max_failures",
    "load_truncated_images": "allow_truncated",
    "preprocessing_function=steps:clean": "map",
    "filter=width > 3": "where",
    "dataset_name=flowers": "name",
    "stratify_by_column": "stratify",
    "input_format=imagefolder": "source=image_folder",
    "input_format=zarr": "",
    "keep_last=3": "keep_versions",
    "workers=4": "direct_num_workers",
    "num_workers=4": "direct_num_workers",
    "num_proc=4": "direct_num_workers",
    "num_parallel_calls=4": "direct_num_workers",
    "n_jobs=4": "direct_num_workers",
    "dryrun": "dry_run",
    "simulate": "dry_run",
    "silent": "quiet",
    "debug": "verbose",
    "imagesize=256": "image_size",
    "over": "overwrite",
    "n_splits=5": "",
    "min_size=32": "",
    "color=gray": "",
    "version": "shows the version",
    "val=0.2": "splits=train=0.8,validation=0.2",
    "train=photos/train": "input=train=photos/train",
    "target=out": "",
    "image_si=256": "image_size",
    "image_sise=256": "image_size",
    "overwrit": "overwrite",
    "shrad_size=1GB": "shard_size",
    "min_pixels=100": "",
    "device=cuda": "",
    "learning_rate=0.1": "",
    "model=resnet": "",
    "none": "",
    "mode=fast": "",
    "fps=3": "",
}
VALUES = {
    "image_encoding=jpg": "image_encoding=jpeg",
    "image_encoding=JPEG": "image_encoding=jpeg",
    "image_encoding=PNG": "image_encoding=png",
    "image_encoding=original": "image_encoding=keep",
    "image_encoding=tiff": "",
    "image_encoding=avif": "",
    "resize_mode=center_crop": "resize_mode=crop",
    "resize_mode=keep_ratio": "resize_mode=shorter",
    "resize_mode=keep_ratio_largest": "resize_mode=longer",
    "resize_mode=border": "resize_mode=pad",
    "resize_mode=stretch": "resize_mode=exact",
    "resize_mode=fill": "",
    "resample=LANCZOS": "resample=lanczos",
    "resample=INTER_AREA": "resample=box",
    "resample=gaussian": "",
    "compression=GZIP": "compression=gzip",
    "compression=zstd": "",
    "channels=rgb": "channels=3",
    "channels=L": "channels=1",
    "channels=cmyk": "",
    "image_size=256px": "image_size=256",
    "image_size=224,224": "image_size=224",
    "image_size=640:480": "",
    "image_size=large": "",
    "splits=train=80,val=20": "splits=train=0.8,val=0.2",
    "splits=80/10/10": "splits=train=0.8,validation=0.1,test=0.1",
    "splits=0.8,0.2": "splits=train=0.8,validation=0.2",
    "splits=train=0.8": "splits=train=0.8,validation=0.2",
    "splits=train:0.9,test:0.1": "splits=train=0.9,test=0.1",
    "splits=random": "",
    "splits=train=0.9,test=dog": "",
    "splits=train=0.7,val=0.2": "",
    "splits=Train=0.5,Test=0.5": "splits=train=0.5,test=0.5",
    "splits=[0.8, 0.2]": "splits=train=0.8,validation=0.2",
    "shard_size=150M": "shard_size=150MB",
    "shard_size=1G": "shard_size=1GB",
    "shard_size=many": "",
    "max_failures=5%": "max_failures=0.05",
    "max_failures=10": "",
    "jpeg_quality=95%": "jpeg_quality=95",
    "image_timeout=30s": "image_timeout=30",
    "image_timeout=1m": "",
    "limit=10k": "limit=10000",
    "limit=1_000": "limit=1000",
    "limit=10%": "",
    "duplicates=remove": "duplicates=drop",
    "duplicates=error": "duplicates=fail",
    "box_format=yolo": "box_format=cxcywh",
    "box_unit=normalized": "box_unit=shares",
    "label_type=regression": "label_type=float",
    "layout=classification": "layout=tfds",
    "layout=Detection": "layout=detection",
    "layout=panoptic": "",
    "guard=none": "guard=off",
    "class_order=alphabetical": "class_order=sorted",
    "fingerprint=md5": "fingerprint=content",
    "orientation=none": "orientation=ignore",
    "codec=pillow": "codec=exact",
    "array_type=float": "array_type=float32",
    "overwrite=yes": "overwrite=true",
}


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory):
    return tmp_path_factory.mktemp("habits") / "spec.yaml"


def refuse(read) -> str:
    with pytest.raises(RequestError) as refused:
        read()
    return refused.value.message


def on_command_line(*words: str) -> str:
    def read() -> None:
        arguments = parse_arguments(["input_folder", "output_folder", *words])
        find_runner(arguments.beam).arguments.check_known()
        read_request(arguments.raw_values)

    return show_flags(refuse(read))


def in_spec(file, name: str, value) -> str:
    file.write_text(json.dumps({"input": "input_folder", "output": "output_folder", name: value}), encoding="utf-8")
    return refuse(lambda: read_request(parse_arguments([f"--spec={file}"]).raw_values))


def in_python(name: str, value) -> str:
    return refuse(lambda: read_arguments("input_folder", "output_folder", (), {name: value}))


def answers(messages, meant: str) -> None:
    """Asserts that a flag, a key and an argument get one answer."""
    name, equals, value = meant.partition("=")
    forms = [
        (f"--{meant}", f"--{name}"),
        (f"{name}: {value}" if equals else f"{name}?", f"--{name}", f"{name}:"),
        (f"`{meant}`", f"`{name}=", f"--{name}"),
    ]
    for message, (exact, *others) in zip(messages, forms, strict=True):
        hint = message.rpartition("; ")[2] if "; " in message else message
        assert exact in message or (not equals and any(form in hint for form in others)), message


def is_silent(message: str) -> bool:
    return not any(word in message for word in ("did you mean", "give it", "leave it out"))


def split_word(typed: str):
    name, equals, value = typed.partition("=")
    return name, {"True": True, "False": False}.get(value, value) if equals else True


@pytest.mark.sampled(12)
@each("typed", NAMES)
def test_a_name_gets_the_same_right_answer_everywhere_or_none(spec_file, typed):
    name, value = split_word(typed)
    messages = [on_command_line(f"--{typed}"), in_spec(spec_file, name, value), in_python(name, value)]
    meant = NAMES[typed]
    if not meant:
        assert all(map(is_silent, messages)), messages
    elif " " in meant:
        assert all(meant in message for message in messages), messages
    else:
        answers(messages, meant)


@pytest.mark.sampled(25)
@each("typed", VALUES)
def test_a_value_gets_the_same_right_answer_everywhere_or_none(spec_file, typed):
    name, _, value = typed.partition("=")
    meant = VALUES[typed]
    for message in (on_command_line(f"--{typed}"), in_spec(spec_file, name, value), in_python(name, value)):
        found = show_flags(message).partition("did you mean --")[2].rstrip("?")
        assert found == meant.replace("--", ""), message


@each(
    "words, says",
    [
        (["-o", "built"], "--output?"),
        (["-i", "photos"], "--input?"),
        (["-y"], "--overwrite?"),
        (["-j8"], "--direct_num_workers?"),
        (["-j", "8"], "--direct_num_workers?"),
        (["-resize", "256"], "--image_size?"),
        (["-quality", "90"], "--jpeg_quality?"),
        (["-v"], "--verbose?"),
        (["--batch-size", "8"], "when it is read"),
        (["--Image_Size=8"], "--image_size?"),
        (["--direct_num_worker=8"], "--direct_num_workers?"),
        (["--a.jpg", "b.jpg"], "see --help"),
        (["image_size=256"], "did you mean --image_size=256?"),
        (["--name=x", "b/2.jpg", "b/3.jpg"], "quote it, as in --input='b/*.jpg'"),
    ],
)
def test_words_of_other_programs_get_the_right_answer(words, says):
    assert says in on_command_line(*words)


def test_a_setting_before_the_flags_is_no_folder():
    assert "did you mean --image_size=256?" in refuse(lambda: parse_arguments(["a", "b", "image_size=256"]))


@each("typed, command", [("build", "convert"), ("info", "inspect"), ("check", "verify"), ("extract", "export")])
def test_commands_of_other_programs_are_known(typed, command):
    assert find_command(typed, _COMMANDS) == command


def test_every_setting_with_a_typo_is_found_or_nothing_is():
    seed = 20261126
    rng = random.Random(seed)
    for name in SETTINGS:
        for _ in range(4):
            at, letter = rng.randrange(len(name)), rng.choice(string.ascii_lowercase)
            typed = rng.choice(
                [name[:at] + name[at + 1 :], name[:at] + letter + name[at:], name[:at] + letter + name[at + 1 :]]
            )
            assert find_near(typed, SETTINGS) in (name, None) or typed in SETTINGS, (seed, name, typed)


@hypothesis.given(
    st.sampled_from(sorted(SETTINGS)),
    st.one_of(
        st.text("0123456789.,:%/= xkMtrainvl()[]", max_size=20), st.text(max_size=12), st.integers(), st.floats()
    ),
)
def test_a_suggested_value_is_one_that_the_setting_takes(name, value):
    setting = SETTINGS[name]
    better = better_value(name, value, lambda _, one: setting.accepts(one), setting.choices)
    assert better is None or setting.accepts(better)


def test_words_that_are_not_near_suggest_nothing():
    flags = flag_names(add_beam_flags(Parser(add_help=False, allow_abbrev=False)))
    seed = 20261127
    rng = random.Random(seed)
    words = (
        "learning rate",
        "epochs",
        "gpus",
        "model name",
        "tile",
        "fps",
        "audio codec",
        "page range",
        "thread",
        "zoom",
    )
    words += tuple("".join(rng.choices(string.ascii_lowercase, k=rng.randrange(7, 14))) for _ in range(60))
    assert [word for word in words if find_near(word, (*SETTINGS, *flags)) is not None] == []


@each(
    "typed, meant",
    [
        ("gs:/bucket/photos", "gs://bucket/photos"),
        ("s3:/bucket", "s3://bucket"),
        ("s3//bucket/x", "s3://bucket/x"),
        ("https:/host/x", "https://host/x"),
        ("file:/photos", "file:///photos"),
    ],
)
def test_a_location_without_a_slash_is_recognised(typed, meant):
    for name in ("input", "output", "reuse"):
        with refuses("mistyped_scheme", says=[f"did you mean {meant}?"]):
            read_request({"input": "a", "output": "b", name: typed})


def test_a_misspelt_folder_is_named_by_its_neighbour(tmp_path, run):
    (tmp_path / "photos").mkdir()
    run("convert", str(tmp_path / "phtos"), str(tmp_path / "out")).refused(
        "not_found", "input", says=["photos is beside it"]
    )
    assert "beside" not in run("convert", str(tmp_path / "cats"), str(tmp_path / "out")).err


def test_a_pattern_that_the_shell_has_replaced_is_named(tmp_path, run, picture, save):
    for name in ("cat/1.png", "cat/2.png", "dog/3.png"):
        save(tmp_path / name, picture(1, 8, 8))
    paths = [str(path) for path in sorted(tmp_path.rglob("*.png"))]
    run("convert", *paths, str(tmp_path / "out")).refused(
        "unknown_format", "input", says=[f"`input={tmp_path}/*/*.png`"]
    )
    run("convert", *paths[:2], str(tmp_path / "out")).refused(
        "unknown_format", "input", says=[f"`input={tmp_path}/cat/*.png`"]
    )
