"""Builds an input for real, and reads its records back: what `program` lists and converts has to be the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from beam_tfrecords import open_dataset
from beam_tfrecords.beam_pipelines.settings.definitions import read_request
from beam_tfrecords.errors import RequestError
from beam_tfrecords.tfrecord import read_records
from tests.conftest import run_command
from tests.meanings.program import Reading, read_example, read_input, scratch_folder
from tests.plain_runner import plain_pipelines


def read_built(settings: Mapping[str, Any]) -> Reading:
    """Returns what a build of a request gives.

    Raises:
      RequestError: the request is refused.
    """
    with scratch_folder() as folder:
        output = Path(folder, "out")
        with plain_pipelines():
            ran = run_command("convert", *_words(settings), f"--output={output}", "--no_report")
        if ran.refusal is not None:
            raise ran.refusal
        if ran.code == 3:
            return Reading([], Counter(), ran.out + ran.err, False, (), frozenset())
        assert ran.code == 0, ran.err
        return _read(output, ran.out)


def _words(settings: Mapping[str, Any]) -> list[str]:
    several = [
        (name, one) for name, value in settings.items() for one in (value if isinstance(value, list) else [value])
    ]
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in several]


def _read(output: Path, text: str) -> Reading:
    dataset = open_dataset(output)
    manifest = json.loads((output / "manifest.json").read_text())
    records = []
    for shard in manifest["shards"]:
        keys = pq.read_table(output / shard["index"], columns=["key"]).column("key").to_pylist()
        with open(output / shard["file"], "rb") as file:
            found = [record.data for record in read_records(file)]
        for key, example in zip(keys, found, strict=True):
            records.append(read_example(key, shard["split"], example, dataset.layout, dataset.class_names))
    reasons = Counter(manifest["failure_reasons"])
    return Reading(records, reasons, text, True, dataset.class_names, dataset.layout.fields)


def find_difference(settings: Mapping[str, Any]) -> str:
    """Returns how a build of a request differs from what `program` reads; "" if it does not."""
    try:
        listed = read_input(settings)
    except RequestError as error:
        try:
            read_built(settings)
        except RequestError as other:
            return "" if error.code == other.code else f"refused with {other.code}, not {error.code}"
        return f"builds; the listing is refused with {error.code}"
    try:
        built = read_built(settings)
    except RequestError as error:
        return f"refused with {error.code}; the listing is not"
    if not (listed.published and built.published):
        return "" if listed.published == built.published else f"published: {built.published}, not {listed.published}"
    here, there = ({(record.split, record.key): record for record in one.records} for one in (listed, built))
    if here != there:
        wrong = next(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
        return f"{wrong}: {there.get(wrong)}, not {here.get(wrong)}"
    # The notes of a build are those of its manifest, whose paths are relative.
    notes = read_request({**settings, "output": "out"}).published_paths.publish_text(listed.text)
    lost = [line for line in notes.splitlines() if line not in built.text and not line.startswith("classes")]
    return f"does not say: {lost[0]}" if lost else ""
