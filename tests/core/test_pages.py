"""What README.md, docs/ and deploy/ say about names agrees with the lists of the code."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_tfrecords.beam_pipelines.messages import exit_codes
from beam_tfrecords.beam_pipelines.settings.command_line import OUR_FLAGS
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, flags_table
from beam_tfrecords.dataset.index import INDEX_SCHEMA
from beam_tfrecords.errors import FailureReason
from beam_tfrecords.features.fields import COLUMN, COLUMNS, FIELDS, NAMED_IMAGE
from beam_tfrecords.features.layouts import ALL_COLUMNS, NAMED, SAME
from beam_tfrecords.transforms.sources.annotated.mapping import KEYS
from beam_tfrecords.transforms.sources.registry import FILE_EXTENSIONS, NAMES
from beam_tfrecords.transforms.sources.unsupported_formats import FORMATS, JSON_ARRAY, JSON_OBJECT, PAIRS
from tests.docs import mappings_page
from tests.docs.pages import PAGES, PROJECT, UNSUPPORTED

DOCS = PROJECT / "docs"
_MARKER = (
    "<!-- The rest of this page is the output of: python -m beam_tfrecords.beam_pipelines.settings.definitions -->\n\n"
)
# Flags of the commands that are not settings of a build.
_OTHER_FLAGS = {
    *("help", "version", "spec", "verbose", "quiet", "dry_run", "no_wait", "keep_job", "fail_job", "no_report"),
    *("dataset", "split", "limit", "json", "json_summary", "metrics_file", "examples", "findings", "sample", "where"),
    *("image", "save", "follow", "pin", "unpin", "to"),
    # Of pytest, in CONTRIBUTING.md.
    "update",
    # Of Beam YAML, in beam.md.
    "yaml_pipeline_file",
    # Of gcloud, in scale.md: --clear-soft-delete.
    "clear",
    # Of Amazon's command line, in buckets.md: --restore-request.
    *("bucket", "key", "prefix", "query", "restore"),
}


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


def test_the_settings_page_has_the_generated_tables():
    _, marker, rest = (DOCS / "settings.md").read_text(encoding="utf-8").partition(_MARKER)
    assert marker
    assert rest == flags_table()


def test_the_mappings_page_has_the_generated_table_and_every_key():
    _, marker, rest = mappings_page.PAGE.read_text(encoding="utf-8").partition(mappings_page.MARKER)
    assert marker
    assert rest == mappings_page.table()
    assert {*KEYS} <= first_cells(mappings_page.PAGE)


def test_the_sources_are_those_of_the_registry():
    page = DOCS / "sources.md"
    rows = re.findall(r"^\| `(\w+)`.* \| `--(?:source|input|images)=.*` \|$", page.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(NAMES)
    text = "".join(one.read_text(encoding="utf-8") for one in (page, *(DOCS / "sources").iterdir()))
    assert set(FILE_EXTENSIONS) <= set(re.findall(r"`([.-][a-z0-9.]+)`", text))


def test_every_unsupported_format_has_its_section():
    titles = re.findall(r"^## (.+)$", UNSUPPORTED.read_text(encoding="utf-8"), re.MULTILINE)
    named = {one.heading for one in (*FORMATS, JSON_ARRAY, JSON_OBJECT, PAIRS)}
    assert named == {re.sub(r"\W+", "-", title.lower()) for title in titles}


def test_the_reasons_of_failures_are_those_of_the_code():
    actions = {"keep", "drop", "fail"}
    assert first_cells(DOCS / "failures.md") - actions == {reason.value for reason in FailureReason}


def test_the_layouts_and_fields_are_those_of_the_code():
    page = DOCS / "layouts.md"
    assert first_cells(page) == {
        *NAMED,
        ALL_COLUMNS,
        SAME,
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


def test_the_exit_codes_are_those_of_the_code():
    ours = {code for code in vars(exit_codes).values() if isinstance(code, int) and code < 128}
    for page in (DOCS / "exit_codes.md", PROJECT / "deploy/schedule/README.md"):
        assert set(map(int, re.findall(r"^\| (\d) \|", page.read_text(encoding="utf-8"), re.MULTILINE))) == ours
