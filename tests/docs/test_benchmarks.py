"""The scripts of benchmarks/ are those that the Makefile and the pages name."""

from __future__ import annotations

import re

from tests.docs.pages import PROJECT

SCRIPT = re.compile(r"benchmarks/(\w+)\.py")
# Imported by the others.
HELPERS = {"chart", "contestants", "figures", "growth_inputs", "make_photos", "peak_memory"}


def test_make_bench_runs_every_script():
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile[makefile.index("\nbench:") :].partition("\n\n")[0]
    assert set(SCRIPT.findall(recipe)) == {path.stem for path in (PROJECT / "benchmarks").glob("*.py")} - HELPERS


def test_the_pages_name_scripts_that_exist():
    pages = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "benchmarks").rglob("*.py")]
    named = {name for page in pages for name in SCRIPT.findall(page.read_text(encoding="utf-8"))}
    assert named <= {path.stem for path in (PROJECT / "benchmarks").glob("*.py")}
