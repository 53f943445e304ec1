"""Manifests of strangers: whatever a field says, each command ends as it does for its own kind, with lines alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import BuildError, RequestError, open_dataset
from tests import tensorflow as tf
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.json_mutations import changed, mutations
from tests.tensorflow import load
from tests.trees import write_tree

pytestmark = pytest.mark.tensorflow

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
