"""The bytes of records are those of their revision: golden digests of images under all settings that decide bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest

from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.settings import settings_of
from tests.core.images.make_golden_images import COMMAND, FILE, array_specs, mask_specs, specs

ROOT = Path(__file__).parents[3]
OWNERS = {
    "specs": "beam_tfrecords/transforms/images/__init__.py",
    "images": "beam_tfrecords/transforms/images/__init__.py",
    "masks": "beam_tfrecords/transforms/images/__init__.py",
    "arrays": "beam_tfrecords/transforms/images/__init__.py",
    "parts": "beam_tfrecords/transforms/images/__init__.py",
    "layouts": "beam_tfrecords/features/__init__.py",
    "samples": "beam_tfrecords/features/__init__.py",
}
REVISIONS = {"image-revision", "example-revision"}


Digests: TypeAlias = dict[str, dict[str, str]]


def make() -> Digests:
    """What the code makes now; in a new process, because TensorFlow brings a zlib of its own into this one."""
    command = [sys.executable, "-m", "tests.core.images.make_golden_images", "--print"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)


@pytest.fixture(scope="module")
def made() -> Digests:
    """The digests of all images."""
    return make()


@pytest.fixture(scope="module")
def golden(made) -> Digests:
    """The committed digests; where another library would make others, they skip, and fail in CI."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    for name, version in made["versions"].items():
        if name not in REVISIONS and found["versions"][name] != version:
            differs = f"{name} is {version}, the golden digests are of {found['versions'][name]}"
            if os.environ.get("CI"):
                pytest.fail(f"{differs}; see whether bytes have changed, then run: {COMMAND}")
            pytest.skip(differs)
    return found


def test_the_bytes_are_those_of_the_revision(made, golden):
    changed = {
        kind: [name for name, digest in sorted(made[kind].items()) if golden[kind].get(name) != digest]
        for kind in OWNERS
    }
    shown = "; ".join(f"{len(names)} {kind}: {', '.join(names[:4])} …" for kind, names in changed.items() if names)
    owners = " and ".join(sorted({OWNERS[kind] for kind, names in changed.items() if names}))
    assert not shown, (
        f"the bytes of records have changed, {shown} If that is meant, add 1 to REVISION in {owners}, so that old "
        f"records are not mixed with new ones, then run: {COMMAND}"
    )
    assert {kind: made[kind].keys() for kind in OWNERS} == {kind: golden[kind].keys() for kind in OWNERS}


def test_the_digests_are_of_the_current_revisions(made, golden):
    for name in REVISIONS:
        now = made["versions"][name]
        assert golden["versions"][name] == now, f"{name} is {now}; run: {COMMAND}"


def test_every_setting_that_decides_bytes_has_several_values():
    for one in settings_of(ImageSpec):
        values = {
            getattr(spec, one.name) for spec in (*specs().values(), *mask_specs().values(), *array_specs().values())
        }
        assert len(values) > 1 or not one.decides_bytes, one.name


def test_every_kind_of_setting_is_covered_for_both_codecs():
    for codec in ("fast", "exact"):
        made = [spec for spec in specs().values() if spec.codec == codec]
        for name in ("image_size", "resize_mode", "resample", "upscale", "image_encoding", "orientation"):
            assert len({getattr(spec, name) for spec in made}) > 1, (codec, name)
