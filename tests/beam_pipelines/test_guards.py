"""Guards between two versions: each trips on real data, lets ordinary change pass, and can be accepted."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from beam_tfrecords import storage
from beam_tfrecords.transforms.request.schedule_spec import Guard, ScheduleSpec
from beam_tfrecords.transforms.settings import settings_of
from tests.beam_pipelines.version_builds import CLASSES, Source, make_source

PER_CLASS = 40


@pytest.fixture(scope="module")
def first(tmp_path_factory, picture, save, convert) -> Source:
    root = tmp_path_factory.mktemp("first")
    source = make_source(root, PER_CLASS * 3, picture=picture, save=save, convert=convert)
    assert source.build().code == 0
    return source


@pytest.fixture
def source(first, tmp_path) -> Source:
    shutil.copytree(first.folder, tmp_path / "in")
    shutil.copytree(first.output, tmp_path / "out")
    return Source(tmp_path / "in", tmp_path / "out", first.convert)


def remove_a_third(source: Source, **_: Callable) -> list[str]:
    for path in sorted(source.folder.rglob("*.png"))[::3]:
        path.unlink()
    return []


def break_some(source: Source, **_: Callable) -> list[str]:
    for path in sorted(source.folder.rglob("*.png"))[::30]:
        path.write_bytes(b"no image")
    return ["--max_failures=0.1"]


def add_a_class(source: Source, picture, save) -> list[str]:
    save(source.folder / "yak/1.png", picture(5000, 30, 40))
    return []


def shift_classes(source: Source, picture, save) -> list[str]:
    for number in range(30):
        save(source.folder / f"cat/more{number}.png", picture(6000 + number, 30, 40))
    return []


def change_a_setting(source: Source, **_: Callable) -> list[str]:
    return ["--jpeg_quality=90"]


def shrink_images(source: Source, **_: Callable) -> list[str]:
    return ["--image_size=8"]


def copy_across_splits(source: Source, **_: Callable) -> list[str]:
    # Enough copies under other names that some are in the other split.
    for number, path in enumerate(sorted(source.folder.glob("owl/*.png"))[:6]):
        shutil.copy(path, path.with_name(f"copy{number}.png"))
    return []


CASES = {
    Guard.COUNT: remove_a_third,
    Guard.FAILURES: break_some,
    Guard.CLASSES: add_a_class,
    Guard.CLASS_SHARES: shift_classes,
    Guard.SETTINGS: change_a_setting,
    Guard.SIZES: shrink_images,
    Guard.SPLITS: copy_across_splits,
}


@pytest.mark.parametrize("guard", Guard)
def test_a_guard_trips_publishes_nothing_and_can_be_accepted(source, picture, save, guard):
    before = (source.latest, source.versions)
    flags = CASES[guard](source, **({"picture": picture, "save": save}))
    ran = source.build(*flags)
    assert ran.code == 3, ran.out
    assert f"guard {guard.value}: " in ran.err
    assert (source.latest, source.versions) == before  # nothing was published, nothing is left
    (refused,) = source.output.glob(".build/*/changes.json")
    violated = {one["guard"] for one in json.loads(refused.read_text())["guards"] if not one["holds"]}
    assert guard.value in violated
    assert f"--accept={','.join(sorted(violated))}" in ran.err
    ran = source.build(*flags, *(f"--accept={name}" for name in sorted(violated)))
    assert ran.code == 0, ran.err
    assert source.latest != before[0]
    guard_results = [one for one in source.changes["guards"] if not one["holds"]]
    assert guard_results
    assert all(one["accepted"] for one in guard_results)
    assert not (source.output / ".build").exists()


def test_a_tripped_guard_leaves_no_shard_and_no_folder_of_the_version(source, monkeypatch):
    """Whoever publishes removes what there is of the version, so that a job without a launcher leaves nothing."""
    remove_a_third(source)
    found: list[Path] = []
    delete_tree = storage.delete_tree

    def look_and_delete(root: str) -> None:
        found.extend(Path(root).rglob("*.tfrecord-*"))
        delete_tree(root)

    monkeypatch.setattr(storage, "delete_tree", look_and_delete)
    started = time.time_ns()
    ran = source.build("--duplicates=drop")
    assert ran.code == 3, ran.err
    assert found == []
    new = [path for path in source.output.rglob("*") if path.stat().st_ctime_ns > started and path.is_file()]
    assert new
    assert all(".build" in path.parts for path in new)


@pytest.mark.any_workers
def test_a_class_that_vanished_is_named(source):
    shutil.rmtree(source.folder / "owl")
    ran = source.build()
    assert ran.code == 3
    assert "guard classes: classes that vanished: owl; before: cat, dog, owl; allowed: none\n" in ran.err


def test_ordinary_change_trips_none(source, picture, save):
    save(source.folder / "cat/new.png", picture(1000, 30, 40))
    (source.folder / "dog/001.png").unlink()
    ran = source.build()
    assert ran.code == 0, ran.err
    assert {one["guard"] for one in source.changes["guards"]} >= {"count", "failures", "classes", "sizes", "splits"}
    assert all(one["holds"] for one in source.changes["guards"])


def test_guards_that_only_warn_are_notes(source):
    remove_a_third(source)
    ran = source.build("--guard=warn")
    assert ran.code == 0, ran.err
    assert "note: guard count: records: 80; before: 120" in ran.out


def test_guards_that_are_off_compare_nothing(source):
    remove_a_third(source)
    assert source.build("--guard=off").code == 0
    assert source.changes["guards"] == []


def violated(source: Source) -> set[str]:
    """Guards that kept the last build from publishing."""
    (refused,) = source.output.glob(".build/*/changes.json")
    return {one["guard"] for one in json.loads(refused.read_text())["guards"] if not one["holds"]}


def flatten_pictures(source: Source, picture, save) -> None:
    for number, path in enumerate(sorted(source.folder.rglob("*.png"))):
        save(path, np.full((30, 40, 3), number, np.uint8))


def fill_pictures_with_noise(source: Source, picture, save) -> None:
    for number, path in enumerate(sorted(source.folder.rglob("*.png"))):
        save(path, np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8))


def add_a_half(source: Source, picture, save) -> None:
    for number in range(PER_CLASS * 3 // 2):
        save(source.folder / f"{CLASSES[number % 3]}/more{number}.png", picture(7000 + number, 30, 40))


def remove_cats(source: Source, **_: Callable) -> None:
    for path in sorted(source.folder.glob("cat/*.png"))[:20]:
        path.unlink()


LIMITS = {
    "min_count_ratio": (remove_cats, 0.95, 0.5, Guard.COUNT),
    "max_count_ratio": (add_a_half, 1.2, 1.9, Guard.COUNT),
    "max_failure_rise": (break_some, 0.02, 0.1, Guard.FAILURES),
    "max_share_change": (remove_cats, 0.05, 0.5, Guard.CLASS_SHARES),
    "min_size_ratio": (flatten_pictures, 0.95, 0.1, Guard.SIZES),
    "max_size_ratio": (fill_pictures_with_noise, 1.05, 9, Guard.SIZES),
}


def test_every_limit_has_a_case():
    limits = {one.name for one in settings_of(ScheduleSpec) if one.name.startswith(("min_", "max_"))}
    assert set(LIMITS) == limits


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_decides_whether_its_guard_trips(source, picture, save, name):
    change, tight, loose, guard = LIMITS[name]
    change(source, **({"picture": picture, "save": save}))
    wide = [f"--{other}={one[2]}" for other, one in LIMITS.items() if other != name]
    ran = source.build("--max_failures=0.1", *wide, f"--{name}={tight}")
    assert ran.code == 3, ran.out
    assert violated(source) == {guard.value}
    assert f"{tight:g}" in ran.err
    ran = source.build("--max_failures=0.1", *wide, f"--{name}={loose}")
    assert ran.code == 0, ran.err


def test_a_class_that_vanished_trips_one_guard(first, tmp_path, picture, save):
    # The first of the sorted names, so that the indices of all others move; more than 0.05 of the samples.
    shutil.copytree(first.folder, tmp_path / "in")
    for number in range(14):
        save(tmp_path / f"in/ant/{number}.png", picture(8000 + number, 30, 40))
    source = Source(tmp_path / "in", tmp_path / "out", first.convert)
    assert source.build().code == 0
    shutil.rmtree(source.folder / "ant")
    ran = source.build()
    assert ran.code == 3
    assert violated(source) == {"classes"}
    assert "guard classes: classes that vanished: ant; before: ant, cat, dog, owl; allowed: none\n" in ran.err
    assert source.build("--accept=classes").code == 0


def test_another_order_of_the_classes_trips_the_guard_settings(source):
    ran = source.build("--class_names=owl,cat,dog")
    assert ran.code == 3
    moved = "cat 0 -> 1, dog 1 -> 2, owl 2 -> 0"
    assert f"guard settings: class indices that move: {moved}; before: cat, dog, owl; allowed: none\n" in ran.err


def test_all_guards_are_accepted_at_once(source):
    remove_a_third(source)
    shutil.rmtree(source.folder / "owl")
    ran = source.build("--jpeg_quality=50", "--accept=all")
    assert ran.code == 0, ran.err
    assert {one["guard"] for one in source.changes["guards"] if not one["holds"]} >= {"count", "classes", "settings"}


def test_a_setting_that_the_version_before_did_not_know_trips_no_guard_and_records_are_reused(source):
    # As if an earlier release, without these settings, had written it.
    path = source.latest / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in ("max_image_memory", "fingerprint", "stratify", "max_file_size"):
        del manifest["spec"][name]
    path.write_text(json.dumps(manifest))
    success = source.latest / "_SUCCESS"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    success.write_text(json.dumps({**json.loads(success.read_text()), "manifest_sha256": digest}))
    ran = source.build()
    assert ran.code == 0, ran.err
    assert source.counts() == {"copied": PER_CLASS * 3}
    ran = source.build("--max_file_size=1MB")
    assert "guard settings: max_file_size: 1000000; before: 1000000000; allowed: no change" in ran.err


@pytest.mark.parametrize(
    ("flags", "violated"),
    [
        (["--max_count_ratio=1.01", "--accept=class_shares"], "count"),
        (["--jpeg_quality=100", "--max_size_ratio=1.01", "--accept=settings"], "sizes"),
    ],
)
def test_a_lower_limit_lets_less_pass(source, picture, save, flags, violated):
    for number in range(4):
        save(source.folder / f"cat/more{number}.png", picture(6000 + number, 30, 40))
    ran = source.build(*flags)
    assert ran.code == 3
    assert {line.split()[1] for line in ran.err.splitlines() if line.startswith("  guard ")} == {f"{violated}:"}


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        (break_some, ["--max_failure_rise=0.5"]),
        (shrink_images, ["--min_size_ratio=0.001", "--accept=settings"]),
    ],
)
def test_a_higher_limit_lets_more_pass(source, change, flags):
    assert source.build(*change(source), *flags).code == 0


def test_a_sample_that_changes_its_split_trips_the_guard_splits(source):
    # Other fractions move samples, and change a setting.
    ran = source.build("--splits=train=0.7,test=0.3", "--accept=settings,count,class_shares")
    assert ran.code == 3
    assert "guard splits: samples that changed their split" in ran.err
