"""What README.md and docs/ say about names agrees with the code."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from PIL import Image

from beam_tfrecords.beam_pipelines.settings.command_line import OUR_FLAGS
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, flags_table
from beam_tfrecords.dataset.index import INDEX_SCHEMA
from beam_tfrecords.errors import FailureReason
from beam_tfrecords.features.fields import COLUMN, COLUMNS, FIELDS, NAMED_IMAGE
from beam_tfrecords.features.layouts import ALL_COLUMNS, NAMED, SAME
from beam_tfrecords.transforms.sources.annotated.mapping import KEYS
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
_OTHER_FLAGS |= {"no_report", "json", "json_summary", "metrics_file", "examples", "findings", "sample"}
# Of pytest, in CONTRIBUTING.md.
_OTHER_FLAGS |= {"update"}
# Of Beam YAML, in beam.md.
_OTHER_FLAGS |= {"yaml_pipeline_file"}
# Of gcloud, in scale.md: --clear-soft-delete.
_OTHER_FLAGS |= {"clear"}
# Of Amazon's command line, in buckets.md: --restore-request.
_OTHER_FLAGS |= {"bucket", "key", "prefix", "query", "restore"}
_OTHER_FLAGS |= {"where", "image", "save", "follow", "pin", "unpin", "to"}

_PAGE_NAME = re.compile(r"(?:(?<![\w/])|\.\./)docs/([a-z_]+(?:/[a-z_]+)*\.md)(?:#([a-z0-9-]+))?")

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


def check_link(file: Path, anchor: str) -> None:
    assert file.is_file(), file
    if anchor:
        titles = re.findall(r"^#+ (.+)$", prose_of(file), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, (file, anchor)


def links_of(page: Path) -> list[tuple[Path, str]]:
    """Files and anchors that a page links to."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose_of(page))
    parts = [target.partition("#") for target in targets if "://" not in target]
    return [(Path(os.path.normpath(page.parent / name)) if name else page, anchor) for name, _, anchor in parts]


@every_page
def test_links_lead_to_files_and_headings(page):
    for file, anchor in links_of(page):
        check_link(file, anchor)


def test_links_in_code_and_messages_lead_to_pages():
    found = 0
    for folder in ("beam_tfrecords", "benchmarks", "deploy"):
        for path in (PROJECT / folder).rglob("*"):
            if path.suffix in {".jinja", ".json", ".md", ".py", ".sh", ".yaml"}:
                text = path.read_text(encoding="utf-8")
                for name, anchor in _PAGE_NAME.findall(text):
                    found += 1
                    check_link(DOCS / name, anchor)
    assert found > 20


def test_the_readme_leads_to_every_page():
    reached, left = set(), {README}
    while left:
        page = left.pop()
        reached.add(page)
        left |= {file for file, _ in links_of(page) if file.suffix == ".md"} - reached
    assert reached >= {*PAGES}


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
    assert len(README.read_text(encoding="utf-8").split()) <= 700


def test_the_readme_has_the_measured_rate():
    words = " ".join(README.read_text(encoding="utf-8").split())
    (named,) = re.findall(r"it converts (\d+) real ImageNet photos per second: ([\d.]+) times as many as", words)
    measured = (DOCS / "benchmarks.md").read_text(encoding="utf-8").partition("tables.py: real_photos")[2]
    (rate,) = re.findall(r"\*\*beam-tfrecords\*\* \| (\d+)", measured.partition("\n\n")[0])
    (ratio,) = re.findall(r"draft\(\).* ([\d.]+)x \|", measured.partition("\n\n")[0])
    assert named == (rate, ratio)


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
    text = "".join(one.read_text(encoding="utf-8") for one in (page, *(DOCS / "sources").iterdir()))
    assert set(FILE_EXTENSIONS) <= set(re.findall(r"`([.-][a-z0-9.]+)`", text))


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
