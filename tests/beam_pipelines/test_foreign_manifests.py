"""Manifests of strangers: whatever a field says, each command ends as it does for its own kind, with lines alone."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, Run
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.transforms.workspace.counts import BlockCounts
from beam_tfrecords.transforms.workspace.state_files import write_state
from tests import tensorflow as tf
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.each import each
from tests.tensorflow import load
from tests.trees import write_tree

pytestmark = pytest.mark.tensorflow

VALUES = (
    None, True, -1, 0, 3, 1 << 61, 10**40, 1.5, "", "x", "1e999", "\ud800", "\x1b[2J", "../../etc/passwd", "a\0b", [],
    [1], {}, {"a": {"b": []}}, {"records": "x"},
)  # fmt: skip
FLAGS = ("--image_size=16", "--direct_num_workers=1", "--splits=train=0.5,validation=0.5")


@pytest.fixture(scope="module")
def made(tmp_path_factory, run) -> Path:
    """Two versions of a small dataset, with failures and copies, so that there are lines in all of its files."""
    root = tmp_path_factory.mktemp("made")
    pictures = {f"class{number % 2}/{number}.png": f"scene 24x20 {number // 2}" for number in range(60)}
    write_tree(root / "in", files={**pictures, "class0/bad.png": "broken"})
    flags = (*FLAGS, "--versioned", "--max_failures=0.5", "--accept=all")
    words = ("convert", f"--input={root / 'in'}", f"--output={root / 'out'}", *flags)
    assert run(*words).code == 0
    write_tree(root / "in", files={"class1/new.png": "scene 24x20 99"})
    assert run(*words).code == 0
    return root


def places(value: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each value in a JSON value."""
    yield above
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places(one, *above, name)


def changed(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    """The value with another one at a place; Ellipsis removes it."""
    if not place:
        return other
    value = copy.deepcopy(value)
    *above, last = place
    holder = value
    for name in above:
        holder = holder[name]
    if other is ...:
        del holder[last]
    else:
        holder[last] = other
    return value


def mutations(value: Any, *, seed: int, most: int | None) -> list[tuple[tuple[Any, ...], Any]]:
    """Places and values; at random, as many as asked for."""
    found = [(place, other) for place in places(value) for other in (*VALUES, ...) if place or other is not ...]
    return found if most is None else random.Random(seed).sample(found, min(most, len(found)))


def write(folder: Path, name: str, data: bytes) -> None:
    """Writes a file of a dataset, and what names its digest anew."""
    (folder / name).write_bytes(data)
    if name not in ("_SUCCESS", "manifest.json"):
        manifest = manifest_of(folder)
        manifest["files"][name] = hashlib.sha256(data).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))
    if name != "_SUCCESS":
        digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
        (folder / "_SUCCESS").write_text(json.dumps({"manifest_sha256": digest}))


def check(output: Path, run, *, reuses: Path | None = None) -> None:
    """Runs all that reads a dataset; an exception that is no refusal would be raised here."""
    commands = [
        ("inspect", f"--dataset={output}"),
        ("report", f"--dataset={output}"),
        ("status", f"--output={output}"),
        ("verify", f"--dataset={output}", "--direct_num_workers=1"),
    ]
    if reuses is not None:
        flags = (*FLAGS, "--max_failures=1", f"--reuse={output}", "--overwrite")
        commands.append(("convert", f"--input={reuses}", f"--output={output.parent / 'again'}", *flags))
    for words in commands:
        ran = run(*words)
        assert ran.code in (0, 1, 2, 3)
        assert all(line.isprintable() for line in (ran.out + ran.err).splitlines())
    with contextlib.suppress(BuildError, RequestError, tf.errors.OpError):
        next(iter(load(output, open_dataset(output).shards[0].split)), None)


def _try(made: Path, name: str, run, *, seed: int, most: int | None) -> int:
    """Tries mutations of a file of JSON; returns how many a command went on with."""
    output = made.parent / f"copy-{name}"
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(made / "out", output)
    folder = Path(open_dataset(output).path)
    original, opened = json.loads((folder / name).read_text()), 0
    keep = {path.name: path.read_bytes() for path in (folder / "_SUCCESS", folder / "manifest.json", folder / name)}
    for place, other in mutations(original, seed=seed, most=most):
        write(folder, name, json.dumps(changed(original, place, other)).encode())
        try:
            open_dataset(output)
        except (BuildError, RequestError):
            pass  # one line, as `test_cli` shows
        else:
            opened += 1
            try:
                check(output, run)
            except Exception as error:
                raise AssertionError(f"{name}: {place} = {other!r}") from error
        for file, data in keep.items():
            (folder / file).write_bytes(data)
    return opened


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["manifest.json", "_SUCCESS", "changes.json"])
def test_a_field_that_says_anything_ends_in_lines(made, run, name):
    assert _try(made, name, run, seed=30, most=10)


def _change_index(path: Path, chosen: random.Random) -> None:
    """Gives a column of an index other values, or takes it away."""
    table = pq.read_table(path)
    place = chosen.randrange(table.num_columns)
    values = chosen.choice([None, "x\x1b[2J", b"\xff", -(1 << 62), 1 << 62, [1], {"a": 1}, ...])
    name = table.column_names[place]
    if values is ...:
        pq.write_table(table.drop([name]), path)
    else:
        pq.write_table(table.set_column(place, name, pa.array([values] * len(table))), path)


def write_build(folder: Path) -> None:
    """A folder of a build of this process that has published nothing."""
    write_state(str(folder / "run.json"), dataclasses.replace(Run.of_this_process(), listed=60, blocks=4))
    write_state(str(folder / "job.json"), JobRecord("FlinkRunner", "a1", "http://127.0.0.1:8081"))
    write_state(str(folder / "workers/1.json"), BlockCounts(2, 20, 3, {"reads": 4}))
    outcome = {
        "listed": {"train": 60},
        "stats": [],
        "folder": "x",
        "tripped": ["a"],
        "guards": ["a"],
        "forbids_duplicates": False,
    }
    (folder / "outcome.json").write_text(json.dumps({**outcome, "is_unchanged": False, "forbids_duplicates": False}))
    (folder / "version").write_text('"20261123T000000Z"')
    (folder / "failures").mkdir()
    (folder / "failures/1.jsonl").write_text(json.dumps({"key": "a", "reason": "corrupt", "detail": "b"}))


@each("name", ["run.json", "job.json", "workers/1.json", "outcome.json", "failures/1.jsonl", "version"])
@each("is_running", [True, False])
def test_status_of_a_build_of_a_stranger_ends_in_lines(run, tmp_path, name, is_running):
    folder = tmp_path / "out/.build/0123456789abcdef"
    write_build(folder)
    if is_running and name != "outcome.json":
        (folder / "outcome.json").unlink()
    original = json.loads((folder / name).read_text())
    holder = Run.of_this_process().launcher
    with Lease.take(f"{folder.parent}/lease", holder) if is_running else contextlib.nullcontext():
        for place, other in mutations(original, seed=0, most=8):
            (folder / name).write_text(json.dumps(changed(original, place, other)))
            for words in ([], ["--json"]):
                ran = run("status", f"--output={tmp_path / 'out'}", *words)
                assert ran.code == 0, (place, other, ran.err)
                assert all(line.isprintable() for line in (ran.out + ran.err).splitlines())


@pytest.mark.nightly
def test_an_index_with_any_column_ends_in_lines(made, run, tmp_path):
    output = Path(shutil.copytree(made / "out", tmp_path / "out"))
    folder = Path(open_dataset(output).path)
    for number in range(6):
        chosen, manifest = random.Random(number), manifest_of(folder)
        shard = manifest["shards"][0]
        index = folder / shard["index"]
        data = index.read_bytes()
        _change_index(index, chosen)
        digest = hashlib.sha256(index.read_bytes()).hexdigest()
        changed_shards = [{**shard, "index_sha256": digest}, *manifest["shards"][1:]]
        write(folder, "manifest.json", json.dumps({**manifest, "shards": changed_shards}).encode())
        check(output, run)
        with contextlib.suppress(BuildError, RequestError):
            open_dataset(output).records(shard["split"])[0]
        index.write_bytes(data)
        write(folder, "manifest.json", json.dumps(manifest).encode())
