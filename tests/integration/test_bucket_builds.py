"""Builds from and to buckets make the dataset that they make on a disk, byte for byte."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import open_dataset
from tests.archive_files import pack_folder
from tests.cases.loading import read_area
from tests.each import each
from tests.integration import buckets
from tests.integration.servers import proxy, s3
from tests.writers import MEANING, WRITERS, flags_of

pytestmark = pytest.mark.nightly

PHOTOS = (Path(__file__).parents[1] / "data" / "photos").resolve()
FLAGS = ["--name=photos", "--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]
both = pytest.mark.parametrize("scheme", buckets.SCHEMES)


@pytest.fixture(scope="module", autouse=True)
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Both services, with the sample photos in their buckets `photos`."""
    with buckets.services(tmp_path_factory.mktemp("services"), *buckets.SCHEMES) as running:
        for scheme in buckets.SCHEMES:
            buckets.upload(PHOTOS, f"{scheme}://photos/all")
        yield running


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """The content of a build from disk to disk, by its flags."""

    @functools.cache
    def content_of(*words: str) -> dict[str, Any]:
        output = str(tmp_path_factory.mktemp("disk") / "out")
        buckets.build(f"--output={output}", *words)
        return buckets.content_of(output)

    return content_of


@pytest.mark.parametrize("target", ["gs", "s3", "disk"])
@pytest.mark.parametrize("source", ["gs", "s3", "disk"])
def test_a_build_has_the_content_of_one_from_disk_to_disk(on_disk, tmp_path, source, target):
    if source == target == "disk":
        pytest.skip("this is the other build")
    inputs = str(PHOTOS) if source == "disk" else f"{source}://photos/all"
    output = str(tmp_path / "out") if target == "disk" else f"{target}://datasets/from {source}#1"
    buckets.build(f"--input={inputs}", f"--output={output}", *FLAGS)
    assert buckets.content_of(output) == on_disk(f"--input={PHOTOS}", *FLAGS)
    buckets.verify(output)


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [("gs", "s3", "tar"), ("s3", "gs", "tar"), ("gs", "gs", "gz"), ("gs", "gs", "zip"), ("s3", "s3", "zip")],
)
def test_an_archive_in_a_bucket_has_the_content_of_one_on_a_disk(on_disk, tmp_path_factory, source, target, kind):
    path = tmp_path_factory.getbasetemp() / f"photos.{kind.replace('gz', 'tar.gz')}"
    if not path.exists():
        pack_folder(PHOTOS, path)
    buckets.write(f"{source}://tables/{path.name}", path.read_bytes())
    output = f"{target}://datasets/{kind} from {source}"
    buckets.build(f"--input={source}://tables/{path.name}", f"--output={output}", *FLAGS)
    assert buckets.content_of(output) == on_disk(f"--input={path}", *FLAGS)


@pytest.mark.parametrize("images", buckets.SCHEMES)
@pytest.mark.parametrize("table", buckets.SCHEMES)
def test_a_table_in_one_bucket_names_images_in_another(on_disk, tmp_path_factory, table, images):
    path = tmp_path_factory.getbasetemp() / "labels.csv"
    names = [photo.relative_to(PHOTOS) for photo in sorted(PHOTOS.rglob("*.jpg"))]
    path.write_text("\n".join(["image,label", *(f"{name.as_posix()},{name.parent}" for name in names)]))
    buckets.write(f"{table}://tables/labels.csv", path.read_bytes())
    output = f"{images}://datasets/table in {table}"
    words = [f"--input={table}://tables/labels.csv", f"--image_root={images}://photos/all", "--allow_outside_root"]
    buckets.build(*words, f"--output={output}", *FLAGS)
    expected = on_disk(f"--input={path}", f"--image_root={PHOTOS}", "--allow_outside_root", *FLAGS)
    assert buckets.content_of(output) == expected
    assert len(expected["failures.jsonl"]) == 0


def failures_of(output: str) -> dict[str, str]:
    lines = map(json.loads, buckets.read(f"{output}/failures.jsonl").splitlines())
    return {failure["key"]: failure["reason"] for failure in lines}


@both
def test_images_that_a_table_names_and_the_bucket_lacks_are_failures(scheme):
    names = [f"{scheme}://photos/all/cat/cat_0{number}.jpg" for number in range(1, 9)]
    rows = [*(f"{name},cat" for name in names), f"{scheme}://photos/all/space/space_01.jpg,"]
    buckets.write(f"{scheme}://tables/missing.csv", "\n".join(["image,label", *rows]).encode())
    flags = ["--image_size=32", "--max_failures=0.5", "--allow_outside_root", "--class_names=cat"]
    output = f"{scheme}://datasets/missing"
    buckets.build(f"--input={scheme}://tables/missing.csv", f"--output={output}", *flags)
    unlabeled = f"{scheme}://photos/all/space/space_01.jpg"
    assert failures_of(output) == {**dict.fromkeys(names[6:], "unreadable"), unlabeled: "label_missing"}
    buckets.verify(output)


@both
def test_an_overwrite_replaces_what_is_in_the_bucket(scheme):
    output = f"{scheme}://datasets/again"
    flags = [f"--input={scheme}://photos/all", f"--output={output}", "--name=photos", "--image_size=32"]
    buckets.build(*flags, "--num_shards=3")
    process = buckets.start(*flags, "--num_shards=2")
    process.communicate(timeout=300)
    assert process.returncode == 2
    buckets.build(*flags, "--num_shards=2", "--overwrite")
    shards = [name[-14:] for name in buckets.files_of(output) if name.startswith("photos-train.tfrecord-")]
    assert shards == ["00000-of-00002", "00001-of-00002"]


class WithoutETags(proxy.Handler):
    """A store that tells nothing by which two contents of a name can be told apart."""

    def pass_on(self, body: bytes) -> proxy.Answer:
        status, headers, content = super().pass_on(body)
        headers = {name: value for name, value in headers.items() if name.lower() != "etag"}
        return proxy.Answer(status, headers, re.sub(rb"<ETag>.*?</ETag>", b"", content))


def test_images_of_a_store_without_etags_are_read(servers, on_disk, tmp_path, monkeypatch):
    with proxy.running(WithoutETags, lambda url: s3.S3Server(url, servers["s3"].upstream_port, {})) as bare:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bare.endpoint)
        buckets.build("--input=s3://photos/all", f"--output={tmp_path}", *FLAGS)
        process = buckets.start(f"--input={PHOTOS}", "--output=s3://datasets/bare", *FLAGS)
        _, err = process.communicate(timeout=300)
    assert buckets.content_of(str(tmp_path)) == on_disk(f"--input={PHOTOS}", *FLAGS)
    assert (process.returncode, "the store returns no ETags for its objects" in err) == (1, True), err


# `convert`, but an object is replaced when the input has been listed.
CHANGE_AND_CONVERT = """
import sys
from beam_tfrecords.beam_pipelines.build import build
from beam_tfrecords.beam_pipelines.commands import cli
from beam_tfrecords import storage

def change_and_run(*arguments, run=build._run, **named):
    storage.write_bytes(sys.argv[1], open(sys.argv[2], "rb").read())
    return run(*arguments, **named)

build._run = change_and_run
sys.exit(cli.main(["convert", *sys.argv[3:]]))
"""


@both
@pytest.mark.parametrize("is_archive", [False, True])
def test_what_is_replaced_between_listing_and_reading_is_rejected_as_changed(scheme, tmp_path, is_archive):
    # All of one size, so that a member begins where another one did.
    photos = sorted(PHOTOS.rglob("*.jpg"))[:6]
    data = [path.read_bytes().ljust(max(one.stat().st_size for one in photos), b"\0") for path in photos]
    for name, images in (("old", data), ("new", data[::-1])):
        for number, image in enumerate(images):
            (tmp_path / name / "cat").mkdir(parents=True, exist_ok=True)
            (tmp_path / name / "cat" / f"{number}.jpg").write_bytes(image)
        pack_folder(tmp_path / name, tmp_path / f"{name}.tar")
    root = f"{scheme}://photos/{'archive' if is_archive else 'folder'}"
    if is_archive:
        buckets.write(f"{root}/in.tar", (tmp_path / "old.tar").read_bytes())
        source, target, new = f"{root}/in.tar", f"{root}/in.tar", tmp_path / "new.tar"
    else:
        buckets.upload(tmp_path / "old", root)
        source, target, new = root, f"{root}/cat/3.jpg", tmp_path / "new/cat/3.jpg"
    words = [f"--input={source}", f"--output={tmp_path}/out", "--image_size=32", "--class_names=cat"]
    command = [sys.executable, "-c", CHANGE_AND_CONVERT, target, new, *words, "--max_failures=0.5"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == (3 if is_archive else 0), ran.stderr
    lost = range(6) if is_archive else [3]
    assert failures_of(f"{tmp_path}/out") == {f"cat/{number}.jpg": "changed" for number in lost}
    if is_archive:
        buckets.build(*words)


@both
def test_a_bucket_that_refuses_an_object_ends_the_build_and_rejects_nothing(servers, scheme, tmp_path):
    words = [f"--input={scheme}://photos/all", f"--output={tmp_path}/out", "--image_size=32"]
    servers[scheme].refuse("GET", "cat_03.jpg", status=403, times=1000)
    process = buckets.start(*words, "--max_failures=1")
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "")
    assert f"{scheme}://photos/all/cat/cat_03.jpg" in err
    servers[scheme].forget_faults()
    buckets.build(*words, "--max_failures=1")
    assert failures_of(f"{tmp_path}/out") == {}


# Every source

# Has the workers list folders of more than five images, and says in how many parts.
_IN_PARTS = """
import sys
from beam_tfrecords.beam_pipelines.build.listing import list_for_build
from beam_tfrecords.beam_pipelines.commands import cli
from beam_tfrecords.storage import name_ranges
from beam_tfrecords.transforms.sources.folders import image_folder

image_folder.MOST_LISTED_HERE, name_ranges._PAGE = 5, 3
index = list_for_build.list_by_workers

def counted(parts, *arguments):
    print(len(parts), "parts")
    index(parts, *arguments)

list_for_build.list_by_workers = counted
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def form_on_disk(tmp_path_factory):
    """Form -> the folder of its input, its flags, and the examples of each split."""

    @functools.cache
    def read(form: str) -> tuple[Path, list[str], dict[str, list[bytes]]]:
        folder = tmp_path_factory.mktemp("disk")
        flags = flags_of(WRITERS[form].make(folder / "in"))
        return folder / "in", flags, convert(flags, folder / "out")

    return read


def convert(flags: list[str], out: Path) -> dict[str, list[bytes]]:
    buckets.build(f"--output={out}", *flags, "--name=photos", "--num_shards=1")
    dataset = open_dataset(out)
    return {split: list(dataset.records(split, form="bytes")) for split in dataset.splits}


# A function of the user opens its files itself.
@both
@pytest.mark.parametrize("form", sorted(WRITERS.keys() - {"function"}))
def test_examples_are_those_of_a_disk(form_on_disk, tmp_path, scheme, form):
    folder, flags, expected = form_on_disk(form)
    # A folder whose name looks like a glob is a folder.
    root = f"{scheme}://photos/forms [1]/{form}"
    buckets.upload(folder, root)
    assert convert([flag.replace(str(folder), root) for flag in flags], tmp_path / "out") == expected


@both
@pytest.mark.parametrize("below", ["", "/**/*.jpg"])
def test_a_folder_that_workers_list_gives_the_dataset_of_the_launcher(scheme, tmp_path, below):
    buckets.upload(PHOTOS, f"{scheme}://photos/large")
    buckets.write(f"{scheme}://photos/large/cat/notes.txt", b"")
    words = [f"--input={scheme}://photos/large{below}", "--exclude=*_06.jpg", "--image_size=16", "--name=photos"]
    buckets.build(f"--output={tmp_path / 'here'}", *words)
    command = [sys.executable, "-c", _IN_PARTS, "convert", f"--output={tmp_path / 'there'}", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(ran.stdout.split(" parts")[0]) > 3
    here, there = buckets.content_of(str(tmp_path / "here")), buckets.content_of(str(tmp_path / "there"))
    assert here == there
    assert here["manifest.json"]["listed"] == 35


@both
@pytest.mark.parametrize("name", ["spark-tfrecord with partitionBy of a day", "spans of TFX"])
def test_trees_of_record_files_are_those_of_a_disk(scheme, tmp_path, name):
    root = tmp_path / "in"
    read_area("record_trees")[name].write(root)
    bucket = f"{scheme}://photos/{name}"
    buckets.upload(root, bucket)
    for place, out in ((root, "disk"), (bucket, "bucket")):
        flags = ("--source=tfrecord", "--image_encoding=keep", "--name=photos", "--num_shards=1")
        buckets.build(f"--output={tmp_path / out}", f"--input={place}", *flags)
    here, there = (open_dataset(tmp_path / out) for out in ("disk", "bucket"))
    assert here.splits == there.splits
    for split in here.splits:
        assert list(here.records(split, form="bytes")) == list(there.records(split, form="bytes"))
    command = [buckets.PROGRAM, "verify", f"--dataset={bucket}"]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"{bucket} has TFRecord files of another program" in verified.stderr


@each("name", ["set.zip", "set.tar", "set.tar.gz"])
@each("form", ["voc", "yolo"])
def test_a_build_of_an_archive_with_annotations_is_that_of_the_folder(form, name, tmp_path):
    settings = WRITERS[form].write(tmp_path, MEANING)
    root = next((tmp_path / one for one in ("in", "VOC") if (tmp_path / one).exists()), tmp_path)
    packed = tmp_path.parent / f"packed {form} {name}"
    pack_folder(root, packed / name)
    buckets.upload(packed, f"s3://photos/{form}")
    place = settings["input"].removeprefix(str(root))
    flags = [f"--source={settings['source']}"] if "source" in settings else []
    flags += ["--name=set", "--image_encoding=png"]
    buckets.build(f"--input={settings['input']}", f"--output={packed}/out", *flags)
    output, archive = f"s3://datasets/{form}-{name}", f"s3://photos/{form}/{name}"
    buckets.build(f"--input={archive}{f'#{place}' if place else ''}", f"--output={output}", *flags)
    of_folder, found = buckets.content_of(f"{packed}/out"), buckets.content_of(output)
    shards = [file for file in of_folder if "tfrecord-" in file]
    assert {file: found[file] for file in shards} == {file: of_folder[file] for file in shards}
