"""The graph of a pipeline does not grow with the input: services limit its size (Dataflow: 10 MB)."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest

from beam_tfrecords.transforms.listing import listing
from tests.beam_pipelines.dataset_checks import manifest_of

pytestmark = pytest.mark.local_runner


@pytest.fixture
def graphs(monkeypatch) -> list[int]:
    """Bytes of the graphs that are run, in order."""
    sizes = []
    run = beam.Pipeline.run

    def run_measured(pipeline: beam.Pipeline, *arguments, **named):
        sizes.append(pipeline.to_runner_api().ByteSize())
        return run(pipeline, *arguments, **named)

    monkeypatch.setattr(beam.Pipeline, "run", run_measured)
    return sizes


def write_table(folder: Path, count: int) -> list[str]:
    (folder / "rows.csv").write_text("number\n" + "".join(f"{number}\n" for number in range(count)))
    (folder / "spec.yaml").write_text("layout: {number: {field: column.number, type: int64}}")
    return [f"--input={folder / 'rows.csv'}", f"--spec={folder / 'spec.yaml'}"]


def write_archives(folder: Path, count: int) -> list[str]:
    for number in range(count):
        with tarfile.open(folder / f"{number:05d}.tar", "w") as archive:
            archive.add(Path(__file__).parents[2] / "data/photos/cat/cat_01.jpg", "cat/1.jpg")
    return [f"--input={folder}/*.tar", "--image_size=8", "--class_names=cat"]


# A chunk file holds 10,000 samples, so 1,000 of them stand for 10 million.
@pytest.mark.nightly
@pytest.mark.parametrize(("write", "many"), [(write_table, 1000), (write_archives, 60)])
def test_the_graph_does_not_grow_with_the_samples(
    tmp_path, build, graphs, monkeypatch, write: Callable[[Path, int], list[str]], many
):
    monkeypatch.setattr(listing, "CHUNK_REFS", 1)
    sizes = []
    for count in (1, many):
        folder = tmp_path / f"{count:05d}"
        folder.mkdir()
        out = build(folder / "out", *write(folder, count))
        assert manifest_of(out)["listed"] == count
        sizes.append(graphs.copy())
        graphs.clear()
    assert sizes[0]
    growth = [after - before for before, after in zip(*sizes, strict=True)]
    assert max(growth) < 500, growth
