"""Most tests build with a plain runner: it writes the files that Beam's local runner writes, byte for byte."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.core.plain_runner import plain_pipelines
from tests.writers import WRITERS, flags_of

pytestmark = pytest.mark.local_runner

# Forms that pipelines list and read in ways of their own.
WAYS = ("tar_zst_of_class_folders", "mask_folder")
# Feature -> flags of a build of real photos.
FEATURES = {
    "splits": ["--splits=train=0.7,test=0.3", "--stratify", "--image_size=32"],
    "compression and a number of shards": ["--compression=gzip", "--num_shards=5", "--image_size=64"],
    "small shards": ["--shard_size=2000B", "--image_encoding=png", "--image_size=16"],
    "a limit": ["--limit=9", "--layout=raw", "--image_encoding=raw", "--image_size=8"],
    "duplicates": ["--duplicates=drop", "--near_duplicates=4", "--image_size=16"],
    "duplicates that are kept": ["--near_duplicates=4", "--splits=a=0.5,b=0.5", "--image_size=16"],
    "images as they are": ["--image_encoding=keep"],
    "an image per record": ["--layout=image", "--image_size=16"],
}


@pytest.fixture
def photos_with_copies(photos, tmp_path) -> Path:
    """Photos, a copy of one, and two files that fail."""
    root = tmp_path / "photos"
    shutil.copytree(photos, root)
    first = min(root.glob("*/*.jpg"))
    shutil.copy(first, first.with_name("copy.jpg"))
    first.with_name("damaged.jpg").write_bytes(first.read_bytes()[:3000])
    first.with_name("empty.jpg").write_bytes(b"")
    return root


@pytest.fixture
def build_twice(convert, snapshot, tmp_path):
    """Builds locally and plainly into one folder; returns what each said and wrote."""

    def build(*words):
        out = tmp_path / "out"
        for _ in range(2):
            ran = convert(f"--output={out}", "--name=it", *words)
            assert ran.code == 0, ran.err
            yield re.sub(r" in [0-9.]+ s \(.*\)", "", ran.out), ran.err, snapshot(out)
            shutil.rmtree(out)

    def both(*words):
        builds = build(*words)
        local = next(builds)
        with plain_pipelines():
            return local, next(builds)

    return both


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=() if form in WAYS else pytest.mark.nightly) for form in WRITERS]
)
def test_every_kind_of_source_gives_the_same_files(build_twice, tmp_path, form):
    writer = WRITERS[form]
    splits = [] if "split" in writer.holds else ["--splits=train=0.8,test=0.2"]
    local, plain = build_twice(*flags_of(writer.make(tmp_path / "in")), "--image_size=24", *splits)
    assert plain == local


@pytest.mark.nightly
@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_gives_the_same_files(build_twice, photos_with_copies, feature):
    local, plain = build_twice(f"--input={photos_with_copies}", *FEATURES[feature], "--max_failures=0.2")
    assert plain == local
