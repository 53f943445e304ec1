"""The tables of benchmarks are made from results, and no other figure stands beside them."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.docs.pages import PROJECT, prose_of

FOLDER = PROJECT / "benchmarks"
# A number with what it measures.
FIGURE = re.compile(r"\d[\d,.]* ?(?:MB|GB|GiB|s|ms|hours?|minutes?|images/s|x|times|%)(?![\w-])")


def load_tables():
    spec = importlib.util.spec_from_file_location("tables", FOLDER / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = load_tables()


@pytest.mark.parametrize("page", TABLES.PAGES, ids=lambda page: page.name)
def test_the_tables_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert text == TABLES.fill_page(text), "say: python benchmarks/tables.py"


def test_a_changed_figure_is_found():
    page = FOLDER.parent / "docs" / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("| **beam-tfrecords** |"))
    assert TABLES.fill_page(text.replace(line, line.replace("1", "2"))) == text


def test_every_table_stands_on_a_page():
    pages = "".join(page.read_text(encoding="utf-8") for page in TABLES.PAGES)
    assert set(re.findall(r"<!-- benchmarks/tables\.py: (\w+) -->", pages)) == set(TABLES.TABLES)


def test_every_file_of_results_is_in_a_table(monkeypatch):
    read = set()
    original = TABLES._read
    monkeypatch.setattr(TABLES, "_read", lambda name: read.add(name) or original(name))
    for name in TABLES.TABLES:
        if name != "measured":
            TABLES._make(name)
    assert read >= {path.stem for path in TABLES.RESULTS.glob("*.json")}


def test_the_prose_of_the_page_has_no_measured_figure():
    (page,) = (page for page in TABLES.PAGES if page.name == "benchmarks.md")
    prose = "\n".join(line for line in prose_of(page).splitlines() if not line.startswith("|"))
    changes = "1% are added, 0.5% changed, 0.5% removed and 0.5% moved"  # what is done, not what was measured
    assert FIGURE.findall(prose.replace(changes, "")) == []


def test_make_bench_runs_every_benchmark():
    makefile = (PROJECT / "Makefile").read_text()
    recipes = makefile[makefile.index("\nbench:") : makefile.index("# The files of deploy/")]
    # Called by the others, for a single file, or to compare two commits.
    helpers = {
        *("batches", "chart", "contestants", "cut_sample_photos"),
        *("growth_inputs", "icc_profiles", "make_photos", "map_steps", "peak_memory"),
    }
    scripts = {path.stem for path in FOLDER.glob("*.py")} - helpers
    assert set(re.findall(r"benchmarks/(\w+)\.py", recipes)) == scripts
