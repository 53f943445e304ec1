"""Guards between two versions: each trips on real data, lets ordinary change pass, and can be accepted."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.beam_pipelines.version_builds import CLASSES, Source, make_source

PER_CLASS = 40


@pytest.fixture(scope="module")
def first(tmp_path_factory, convert) -> Source:
    source = make_source(tmp_path_factory.mktemp("first"), PER_CLASS * 3, convert)
    assert source.build().code == 0
    return source


@pytest.fixture
def source(first, tmp_path) -> Source:
    shutil.copytree(first.folder, tmp_path / "in")
    shutil.copytree(first.output, tmp_path / "out")
    return Source(tmp_path / "in", tmp_path / "out", first.convert)


def violated(source: Source) -> set[str]:
    """Returns the guards that kept the last build from publishing."""
    (refused,) = source.output.glob(".build/*/changes.json")
    return {one["guard"] for one in json.loads(refused.read_text())["guards"] if not one["holds"]}


# Changes of an input.


def remove(pattern: str, *, step: int = 1, most: int | None = None) -> Callable[[Source], None]:
    def change(source: Source) -> None:
        for path in sorted(source.folder.glob(pattern))[::step][:most]:
            path.unlink()

    return change


def damage(source: Source) -> None:
    for path in sorted(source.folder.rglob("*.png"))[::30]:
        path.write_bytes(b"no image")


def add(*names: str) -> Callable[[Source], None]:
    def change(source: Source) -> None:
        for number, name in enumerate(names):
            source.put(name, 5000 + number)

    return change


def repaint(is_flat: bool) -> Callable[[Source], None]:
    """Makes all pictures flat, or noise."""

    def change(source: Source) -> None:
        for number, path in enumerate(sorted(source.folder.rglob("*.png"))):
            noise = np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8)
            Image.fromarray(np.full_like(noise, number) if is_flat else noise).save(path)

    return change


def copy_across_splits(source: Source) -> None:
    # Enough copies under other names that some are in the other split.
    for number, path in enumerate(sorted(source.folder.glob("owl/*.png"))[:6]):
        shutil.copy(path, path.with_name(f"copy{number}.png"))


def nothing(source: Source) -> None: ...


A_THIRD = remove("*/*.png", step=3)
# Guard -> a change, flags, and what is said.
TRIPS: list[tuple[str, Callable[[Source], None], list[str], str]] = [
    ("count", A_THIRD, [], "records: 80; before: 120"),
    ("failures", damage, ["--max_failures=0.1"], ""),
    ("classes", add("yak/1.png"), [], "classes that appeared: yak"),
    ("classes", remove("owl/*"), [], "classes that vanished: owl; before: cat, dog, owl; allowed: none\n"),
    ("class_shares", add(*(f"cat/more{number}.png" for number in range(30))), [], ""),
    ("settings", nothing, ["--jpeg_quality=90"], "jpeg_quality: 90; before: 95; allowed: no change"),
    (
        "settings",
        nothing,
        ["--class_names=owl,cat,dog"],
        "class indices that move: cat 0 -> 1, dog 1 -> 2, owl 2 -> 0; before: cat, dog, owl; allowed: none\n",
    ),
    ("sizes", nothing, ["--image_size=8"], ""),
    ("splits", copy_across_splits, [], ""),
    ("splits", nothing, ["--splits=train=0.7,test=0.3"], "samples that changed their split"),
]


@pytest.mark.any_workers
@pytest.mark.parametrize(("guard", "change", "flags", "says"), TRIPS, ids=[f"{one[0]} {one[3]}" for one in TRIPS])
def test_a_guard_trips_publishes_nothing_and_can_be_accepted(source, guard, change, flags, says):
    before = (source.latest, source.versions)
    change(source)
    started = time.time_ns()
    ran = source.build(*flags)
    assert ran.code == 3, ran.out
    assert f"guard {guard}: {says}" in ran.err
    assert (source.latest, source.versions) == before
    new = [path for path in source.output.rglob("*") if path.is_file() and path.stat().st_ctime_ns > started]
    assert new
    assert all(".build" in path.parts for path in new)
    found = violated(source)
    assert guard in found
    assert f"--accept={','.join(sorted(found))}" in ran.err
    ran = source.build(*flags, *(f"--accept={name}" for name in sorted(found)))
    assert ran.code == 0, ran.err
    assert source.latest != before[0]
    results = [one for one in source.changes["guards"] if not one["holds"]]
    assert results
    assert all(one["accepted"] for one in results)
    assert not (source.output / ".build").exists()


def test_a_version_that_drops_copies_leaves_no_shard_when_a_guard_trips(source):
    A_THIRD(source)
    assert source.build("--duplicates=drop").code == 3
    assert not [path for path in source.output.rglob("*.tfrecord-*") if source.latest not in path.parents]


def test_ordinary_change_trips_none(source):
    source.put("cat/new.png", 1000)
    (source.folder / "dog/001.png").unlink()
    ran = source.build()
    assert ran.code == 0, ran.err
    assert {one["guard"] for one in source.changes["guards"]} >= {"count", "failures", "classes", "sizes", "splits"}
    assert all(one["holds"] for one in source.changes["guards"])


def test_guards_only_warn_compare_nothing_or_are_accepted_at_once(source):
    A_THIRD(source)
    shutil.rmtree(source.folder / "owl")
    ran = source.build("--jpeg_quality=50", "--accept=all")
    assert ran.code == 0, ran.err
    assert {one["guard"] for one in source.changes["guards"] if not one["holds"]} >= {"count", "classes", "settings"}
    A_THIRD(source)
    ran = source.build("--guard=warn")
    assert ran.code == 0, ran.err
    assert "note: guard count: records: " in ran.out
    A_THIRD(source)
    assert source.build("--guard=off").code == 0
    assert source.changes["guards"] == []


# Limit -> change, a value with which its guard trips, one with which it does not, and the guard.
LIMITS: dict[str, tuple[Callable[[Source], None], float, float, str]] = {
    "min_count_ratio": (remove("cat/*", most=20), 0.95, 0.5, "count"),
    "max_count_ratio": (add(*(f"{CLASSES[n % 3]}/more{n}.png" for n in range(PER_CLASS * 3 // 2))), 1.2, 1.9, "count"),
    "max_failure_rise": (damage, 0.02, 0.1, "failures"),
    "max_share_change": (remove("cat/*", most=20), 0.05, 0.5, "class_shares"),
    "min_size_ratio": (repaint(True), 0.95, 0.1, "sizes"),
    "max_size_ratio": (repaint(False), 1.05, 9, "sizes"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_decides_whether_its_guard_trips(source, name):
    change, tight, loose, guard = LIMITS[name]
    change(source)
    wide = [f"--{other}={one[2]}" for other, one in LIMITS.items() if other != name]
    ran = source.build("--max_failures=0.1", *wide, f"--{name}={tight}")
    assert ran.code == 3, ran.out
    assert violated(source) == {guard}
    assert f"{tight:g}" in ran.err
    ran = source.build("--max_failures=0.1", *wide, f"--{name}={loose}")
    assert ran.code == 0, ran.err


def test_every_limit_has_a_case():
    page = (Path(__file__).parents[2] / "docs/settings.md").read_text()
    others = {"max_failures", "max_pixels", "max_file_size", "max_image_memory"}
    assert {*re.findall(r"^\| `--((?:min|max)_\w+)`", page, re.MULTILINE)} - others == {*LIMITS}


def test_a_class_that_vanished_trips_one_guard(first, tmp_path):
    # The first of the sorted names, so that the indices of all others move; more than 0.05 of the samples.
    shutil.copytree(first.folder, tmp_path / "in")
    source = Source(tmp_path / "in", tmp_path / "out", first.convert)
    add(*(f"ant/{number}.png" for number in range(14)))(source)
    assert source.build().code == 0
    shutil.rmtree(source.folder / "ant")
    assert source.build().code == 3
    assert violated(source) == {"classes"}
    assert source.build("--accept=classes").code == 0


def test_a_setting_that_the_version_before_did_not_know_trips_no_guard_and_records_are_reused(source):
    # As if an earlier release, without these settings, had written it.
    path, success = source.latest / "manifest.json", source.latest / "_SUCCESS"
    manifest = json.loads(path.read_text())
    for name in ("max_image_memory", "fingerprint", "stratify", "max_file_size"):
        del manifest["spec"][name]
    path.write_text(json.dumps(manifest))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    success.write_text(json.dumps({**json.loads(success.read_text()), "manifest_sha256": digest}))
    ran = source.build()
    assert ran.code == 0, ran.err
    assert source.counts() == {"copied": PER_CLASS * 3}
    ran = source.build("--max_file_size=1MB")
    assert "guard settings: max_file_size: 1000000; before: 1000000000; allowed: no change" in ran.err
