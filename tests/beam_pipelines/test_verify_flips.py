"""`verify`: every flipped bit of a shard and every edited byte of the manifest is found, with its place."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.transforms.verifying.checks import ShardCheck
from tests.beam_pipelines.dataset_checks import find_all, manifest_of

SEED = 20_240_301


def flip(path: Path, file: str, bit: int) -> None:
    data = bytearray((path / file).read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    (path / file).write_bytes(data)


def random_bits(path: Path, count: int) -> Iterator[tuple[str, int]]:
    random = np.random.default_rng(SEED)
    shards = manifest_of(path)["shards"]
    for _ in range(count):
        shard = shards[random.integers(len(shards))]
        yield shard["file"], int(random.integers(8 * shard["bytes"]))


@pytest.mark.parametrize("name", ["plain", "gzip"])
def test_every_flipped_bit_of_a_shard_is_found(damaged, name):
    path = damaged(name)
    dataset = open_dataset(str(path))
    check = ShardCheck.of(dataset)
    by_file = {shard.file: shard for shard in dataset.shards}
    for file, bit in random_bits(path, 100):
        flip(path, file, bit)
        findings = list(check(by_file[file]))
        assert findings, f"bit {bit} of {file} (seed {SEED})"
        assert {finding.file for finding in findings} == {file}
        flip(path, file, bit)
    assert find_all(path) == []


def test_a_flipped_bit_is_found_with_its_record_and_offset(damaged):
    path = damaged()
    dataset = open_dataset(str(path))
    check = ShardCheck.of(dataset)
    rows = {shard.file: pq.read_table(path / shard.index).to_pylist() for shard in dataset.shards}
    by_file = {shard.file: shard for shard in dataset.shards}
    for file, bit in random_bits(path, 100):
        expected = next(
            (number, row["offset"])
            for number, row in enumerate(rows[file])
            if row["offset"] <= bit // 8 < row["offset"] + row["length"]
        )
        flip(path, file, bit)
        first = next(check(by_file[file]))
        assert (first.record, first.offset) == expected, f"bit {bit} of {file} (seed {SEED})"
        flip(path, file, bit)


@pytest.mark.any_workers
@pytest.mark.parametrize("name", ["plain", "gzip"])
def test_the_command_names_the_shard_of_a_flipped_bit(damaged, verify, name):
    path = damaged(name)
    file, bit = list(random_bits(path, 7))[-1]
    flip(path, file, bit)
    ran = verify(path)
    assert ran.code == 1
    assert re.search(rf"^{re.escape(file)}, record \d+ at offset \d+: ", ran.out, re.MULTILINE), ran.out
    assert "finding" in ran.err


def test_the_command_continues_after_the_first_finding(damaged, verify):
    path = damaged()
    shards = manifest_of(path)["shards"]
    expected = []
    for shard in (shards[0], shards[2]):
        rows = pq.read_table(path / shard["index"]).to_pylist()
        # In the length, and in the middle of the data.
        for number, place in ((1, 0), (3, rows[3]["length"] // 2)):
            flip(path, shard["file"], 8 * (rows[number]["offset"] + place))
            expected.append(f"{shard['file']}, record {number} at offset {rows[number]['offset']}: ")
    (path / shards[3]["index"]).unlink()
    ran = verify(path)
    assert ran.code == 1
    assert [line for line in expected if line not in ran.out] == []
    assert f"{shards[3]['index']}: is missing" in ran.out


@pytest.mark.nightly
def test_every_edited_byte_of_the_manifest_is_found_or_makes_it_unreadable(damaged):
    path = damaged()
    original = (path / "manifest.json").read_bytes()
    random = np.random.default_rng(SEED)
    for _ in range(300):
        data = bytearray(original)
        at = int(random.integers(len(data)))
        data[at] = int(random.integers(32, 127)) if random.integers(2) else data[at] ^ 1
        if data == original:
            continue
        (path / "manifest.json").write_bytes(data)
        with contextlib.suppress(BuildError, RequestError):
            assert find_all(path), f"byte {at} (seed {SEED})"


def keys_in(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all keys in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        if isinstance(value, dict):
            yield (*path, key)
        yield from keys_in(below, (*path, key))


@pytest.mark.nightly
def test_every_key_that_is_missing_in_the_manifest_is_found_or_makes_it_unreadable(damaged):
    path = damaged()
    manifest = manifest_of(path)
    for *parents, key in keys_in(manifest):
        edited = json.loads(json.dumps(manifest))
        value = edited
        for parent in parents:
            value = value[parent]
        del value[key]
        (path / "manifest.json").write_text(json.dumps(edited))
        with contextlib.suppress(BuildError, RequestError):
            assert find_all(path), (*parents, key)
