"""A single class that nobody named tells nothing apart: refused with what lies beside the images, over all sources."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from tests.beam_pipelines.listed_records import PICTURE, commands_of, read
from tests.each import each
from tests.refusals import refuses

COUNT = 6


def write_folder(root: Path, classes: list[str]) -> str:
    for number in range(COUNT):
        path = root / f"{root.name}-in" / classes[number % len(classes)] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(PICTURE)
    return f"{root}/{root.name}-in"


def write_glob(root: Path, classes: list[str]) -> str:
    return f"{write_folder(root, classes)}/*/*.png"


def write_archive(root: Path, classes: list[str], kind: str) -> str:
    return shutil.make_archive(str(root / root.name), kind, write_folder(root, classes))


def rows_of(root: Path, classes: list[str]) -> list[dict[str, str]]:
    folder = write_folder(root, classes)
    paths = sorted(Path(folder).glob("*/*.png"), key=lambda path: path.name)
    return [{"image": str(path.relative_to(root)), "label": classes[n % len(classes)]} for n, path in enumerate(paths)]


def write_csv(root: Path, classes: list[str]) -> str:
    with (root / f"{root.name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ("image", "label"))
        writer.writeheader()
        writer.writerows(rows_of(root, classes))
    return f"{root}/{root.name}.csv"


def write_jsonl(root: Path, classes: list[str]) -> str:
    (root / f"{root.name}.jsonl").write_text("\n".join(map(json.dumps, rows_of(root, classes))))
    return f"{root}/{root.name}.jsonl"


def write_parquet(root: Path, classes: list[str]) -> str:
    pq.write_table(pa.Table.from_pylist(rows_of(root, classes)), root / f"{root.name}.parquet")
    return f"{root}/{root.name}.parquet"


def write_webdataset(root: Path, classes: list[str]) -> str:
    with tarfile.open(root / f"{root.name}.tar", "w") as archive:
        for number in range(COUNT):
            for ending, content in (
                ("png", PICTURE),
                ("json", b'{"label": "%s"}' % classes[number % len(classes)].encode()),
            ):
                member = tarfile.TarInfo(f"{number:04d}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return f"{root}/{root.name}.tar"


WRITERS = {
    "folder": write_folder,
    "glob": write_glob,
    "tar": lambda root, classes: write_archive(root, classes, "tar"),
    "zip": lambda root, classes: write_archive(root, classes, "zip"),
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "webdataset": write_webdataset,
}


@each("flags", [[], ["--splits=train=0.5,test=0.5"], ["--limit=100"]], ids=" ".join)
@each("kind", WRITERS)
def test_a_single_class_is_refused_with_commands_that_are_right(kind, flags, tmp_path):
    argv = [f"--input={WRITERS[kind](tmp_path, ['cat'])}", f"--output={tmp_path / 'out'}", *flags]
    with refuses("single_class", "input", says=["cat ", f"all {COUNT} "]) as refused:
        read(argv, tmp_path / "listing")
    lines = explain(refused.value, "convert", argv)
    named, unlabelled = commands_of(lines)
    for command, label in ((named, "cat"), (unlabelled, "")):
        records, _ = read(command, tmp_path / f"listing-{label}")
        assert {label for found in records.values() for label in found} == {label}
        assert sum(map(sum, map(dict.values, records.values()))) == COUNT


@each("kind", WRITERS)
@each("flags", [["--class_names=cat,dog"], ["--layout=image"], [f"--limit={COUNT}"]], ids=" ".join)
def test_a_single_class_that_the_request_explains_is_read(kind, flags, tmp_path):
    argv = [f"--input={WRITERS[kind](tmp_path, ['cat'])}", f"--output={tmp_path / 'out'}", *flags]
    records, _ = read(argv, tmp_path / "listing")
    assert sum(records["train"].values()) == COUNT


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "glob"])
def test_one_of_several_classes_may_be_chosen(kind, tmp_path):
    argv = [f"--input={WRITERS[kind](tmp_path, ['cat', 'dog'])}", f"--output={tmp_path / 'out'}", "--classes=cat"]
    assert read(argv, tmp_path / "listing")[0] == {"train": {"cat": COUNT // 2}}


@pytest.mark.parametrize("kind", ["folder", "glob", "tar", "zip", "csv", "parquet", "webdataset"])
def test_inputs_of_one_class_each_are_several_classes(kind, tmp_path):
    inputs = []
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        inputs.append(f"--input={WRITERS[kind](tmp_path / name, [name])}")
    records, _ = read([*inputs, f"--output={tmp_path / 'out'}"], tmp_path / "listing")
    assert records == {"train": {"cat": COUNT, "dog": COUNT}}


def test_a_number_of_the_same_class_is_named_as_it_is(tmp_path):
    argv = [f"--input={write_csv(tmp_path, ['3'])}", f"--output={tmp_path / 'out'}"]
    with refuses("single_class", "input", says=["3"]) as refused:
        read(argv, tmp_path / "listing")
    named, _ = commands_of(explain(refused.value, "convert", argv))
    assert read(named, tmp_path / "named")[0] == {"train": {"3": COUNT}}


def test_another_column_of_the_table_is_offered_first(tmp_path):
    table = Path(write_csv(tmp_path, ["cat"]))
    header, *lines = table.read_text().splitlines()
    table.write_text("\n".join([f"{header},breed", *(f"{line},{'ab'[n % 2]}" for n, line in enumerate(lines))]))
    argv = [f"--input={table}", f"--output={tmp_path / 'out'}"]
    with refuses("single_class", "input") as refused:
        read(argv, tmp_path / "listing")
    first, *_ = commands_of(explain(refused.value, "convert", argv))
    assert read(first, tmp_path / "first")[0] == {"train": {"a": COUNT // 2, "b": COUNT // 2}}


def test_a_table_beside_a_single_folder_is_offered_first(tmp_path):
    folder = Path(write_folder(tmp_path, ["photos"]))
    rows = [f"photos/{number}.png,{'ab'[number % 2]}" for number in range(COUNT)]
    (folder / "labels.csv").write_text("\n".join(["image,label", *rows]))
    argv = [f"--input={folder}", f"--output={tmp_path / 'out'}", "--class_order=sorted"]
    with refuses("no_class_folders", "input", "label_pattern") as refused:
        read(argv, tmp_path / "listing")
    first, *_ = commands_of(explain(refused.value, "convert", argv))
    assert read(first, tmp_path / "first")[0] == {"train": {"a": COUNT // 2, "b": COUNT // 2}}


@pytest.mark.parametrize("kind", ["folder", "tar", "zip"])
def test_a_pattern_that_gives_a_single_class_is_refused(kind, tmp_path):
    source = WRITERS[kind](tmp_path, ["cat"])
    argv = [f"--input={source}", f"--output={tmp_path / 'out'}", "--label_pattern=(?P<label>c..)/"]
    with refuses("single_class", "input", says=["cat"]):
        read(argv, tmp_path / "listing")


def test_samples_without_a_label_are_a_failure_of_theirs(tmp_path, convert):
    table = Path(write_csv(tmp_path, ["cat"]))
    table.write_text(table.read_text().replace(",cat\n", ",\n", 1).replace(",cat\r\n", ",\r\n", 1))
    ran = convert(f"--input={table}", f"--output={tmp_path / 'out'}")
    assert ran.code == 3
    assert "label_missing" in ran.err
    ran = convert(f"--input={table}", f"--output={tmp_path / 'out'}", "--max_failures=0.5")
    ran.refused("single_class", "input", says=["cat ", "all 5 rows"])


def test_a_dry_run_refuses_as_the_build_does(tmp_path, convert):
    flags = [f"--input={write_folder(tmp_path, ['cat'])}", f"--output={tmp_path / 'out'}"]
    ran, dry = convert(*flags), convert(*flags, "--dry_run")
    assert (ran.code, dry.code) == (2, 2)
    assert ran.err.splitlines()[0] == dry.err.splitlines()[0]
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").rglob("*"))
