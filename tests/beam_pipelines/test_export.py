"""`export`: every layout and source becomes files and a table with a row per record."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from beam_tfrecords import open_dataset
from tests.beam_pipelines.test_dataset_input import LAYOUTS, index_rows
from tests.identity_inputs import INPUTS
from tests.identity_inputs import flags_of as flags_of_input
from tests.source_forms import FORMS, SEVERAL_FORMS, write_form
from tests.source_forms import flags_of as flags_of_form


@pytest.fixture
def check(run):
    """Exports a dataset, and compares the table with its index and the files with the table."""

    def export(out: Path) -> None:
        folder = out.parent / "folder"
        ran = run("export", f"--dataset={out}", f"--to={folder}")
        assert ran.code == 0, ran.err
        rows = pq.read_table(folder / "samples.parquet").to_pylist()
        splits = open_dataset(out).splits
        expected = [(split, row["key"]) for split in splits for row in index_rows(out, split)]
        assert [(row["split"], row["key"]) for row in rows] == expected
        files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        cells = {str(one) for row in rows for cell in row.values() for one in (cell if type(cell) is list else [cell])}
        others = {"samples.parquet", *(name for name in files if name.startswith("annotations/"))}
        assert files - cells == others
        columns = [one.image or "image" for one in open_dataset(out).layout.features if one.holds_image]
        assert all(row[name] == [] or row[name] for row in rows for name in columns)

    return export


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_exported(tmp_path, build, check, layout):
    write, flags = LAYOUTS[layout]
    check(build(tmp_path / "first", *write(tmp_path), *flags, "--name=x", "--max_failures=0.5"))


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp", "raw", "keep"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_exported(tmp_path, build, check, form, encoding):
    write_form(form, tmp_path / "in")
    words = [*flags_of_form(form, tmp_path / "in"), f"--image_encoding={encoding}", "--name=x"]
    if encoding == "raw" and form in SEVERAL_FORMS:
        words += ["--image_size=20", "--resize_mode=exact"]
    check(build(tmp_path / "first", *words))


@pytest.mark.parametrize("source", INPUTS)
def test_every_source_is_exported(tmp_path, build, check, source):
    (tmp_path / "in").mkdir()
    INPUTS[source][0](tmp_path / "in", 0)
    check(build(tmp_path / "first", *flags_of_input(source, tmp_path / "in"), "--image_size=24", "--name=x"))
