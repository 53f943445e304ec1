"""What README.md and docs/ say about names agrees with the code."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from PIL import Image

from beam_tfrecords.beam_pipelines.settings.beam_flags import OUR_FLAGS
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, flags_table
from beam_tfrecords.errors import FailureReason
from beam_tfrecords.examples.layouts import ALL_COLUMNS, COLUMN, COLUMNS, FIELDS, NAMED, NAMED_IMAGE
from beam_tfrecords.output.index import INDEX_SCHEMA
from beam_tfrecords.transforms.sources.documents.mapping import KEYS
from beam_tfrecords.transforms.sources.registry import FILE_EXTENSIONS, NAMES
from tests.docs import mappings_page
from tests.docs.pages import PAGES, PROJECT, prose_of

README = PROJECT / "README.md"
DOCS = PROJECT / "docs"
_MARKER = (
    "<!-- The rest of this page is the output of: python -m beam_tfrecords.beam_pipelines.settings.definitions -->\n\n"
)
# Flags of the commands that are not settings of a build.
_OTHER_FLAGS = {
    "help",
    "version",
    "spec",
    "verbose",
    "quiet",
    "dry_run",
    "no_wait",
    "keep_job",
    "fail_job",
    "no_report",
    "dataset",
    "split",
    "limit",
}
_OTHER_FLAGS |= {"no_report", "json", "json_summary", "metrics_file", "examples", "findings"}
# Of pytest, in CONTRIBUTING.md.
_OTHER_FLAGS |= {"exhaustive", "update"}
# Of gcloud, in scale.md: --clear-soft-delete.
_OTHER_FLAGS |= {"clear"}
_OTHER_FLAGS |= {"where", "image", "save", "follow", "failed_images", "pin", "unpin"}

every_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


def first_cells(page: Path) -> set[str]:
    """The words in backticks in the first column of the tables of a page, without the flags that head a column."""
    rows = re.findall(r"^\| (`[^|]*) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row) if not word.startswith("--")}


def beam_flags() -> set[str]:
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return {*OUR_FLAGS, *(flag[2:] for action in parser._actions for flag in action.option_strings)}


# The messages in refusals.md quote flags that do not exist.
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "refusals.md"], ids=lambda page: page.name)
def test_flags_exist(page):
    switches = {f"no_{name}" for name, one in SETTINGS.items() if one.is_switch and one.default}
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z_]*)", page.read_text(encoding="utf-8")))
    assert named <= {*SETTINGS, *switches, *_OTHER_FLAGS, *beam_flags()}


@every_page
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.is_file(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", prose_of(file), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, target


def test_the_readme_links_to_every_page():
    linked = set(re.findall(r"(?<!!)\[[^]]*\]\(docs/([^)#]+)", README.read_text(encoding="utf-8")))
    assert linked == {page.name for page in PAGES if page.parent == DOCS}


def test_the_readme_shows_the_report_and_the_benchmark_and_says_what_is_in_the_pictures():
    pictures = re.findall(r"!\[([^]]*)\]\((docs/[^)]+)\)", README.read_text(encoding="utf-8"))
    assert [name for _, name in pictures] == ["docs/report.png", "docs/benchmarks.png"]
    for text, name in pictures:
        assert text
        with Image.open(PROJECT / name) as picture:
            assert picture.format == "PNG"
            assert picture.width <= 1000
        assert (PROJECT / name).stat().st_size < 150_000


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 80


def test_the_settings_page_has_the_generated_tables():
    _, marker, rest = (DOCS / "settings.md").read_text(encoding="utf-8").partition(_MARKER)
    assert marker
    assert rest == flags_table()


def test_the_mappings_page_has_the_generated_table():
    _, marker, rest = mappings_page.PAGE.read_text(encoding="utf-8").partition(mappings_page.MARKER)
    assert marker
    assert rest == mappings_page.table()


def test_the_mappings_page_has_every_key():
    assert {*KEYS} <= first_cells(mappings_page.PAGE)


def test_the_sources_are_those_of_the_registry():
    page = DOCS / "sources.md"
    assert set(NAMES) <= first_cells(page)
    assert set(FILE_EXTENSIONS) <= set(re.findall(r"`([.-][a-z0-9.]+)`", page.read_text(encoding="utf-8")))


def test_the_reasons_of_failures_are_those_of_the_code():
    actions = {"keep", "drop", "fail"}
    assert first_cells(DOCS / "failures.md") - actions == {reason.value for reason in FailureReason}


def test_the_layouts_and_fields_are_those_of_the_code():
    page = DOCS / "layouts.md"
    assert first_cells(page) == {
        *NAMED,
        ALL_COLUMNS,
        *FIELDS,
        f"{NAMED_IMAGE}<name>",
        f"{COLUMN}<name>",
        f"{COLUMNS}<first>..<last>",
    }
    rows = dict(re.findall(r"^\| `(\w+)`(?: \(default\))? \| (.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("tfds", "imagenet", "tutorial"):
        assert set(re.findall(r"`([^`]+)`", rows[name])) == set(NAMED[name]), name


def test_the_columns_of_the_index_are_those_of_the_code():
    assert first_cells(DOCS / "output.md") == set(INDEX_SCHEMA.names)
