"""Writes all generated files: `make generated`. Read what changed before you commit it.

Golden digests are left out, because who changes bytes raises a revision: `python -m
tests.core.images.make_golden_images`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.core.refusal_snapshot import SNAPSHOT, is_there

ROOT = Path(__file__).parents[1]
MARKER = re.compile(r"<!-- The rest of this page is the output of: python -m ([\w.]+) -->\n\n")
# A module, by its path, that prints the other file.
SETTINGS = "beam_tfrecords/beam_pipelines/settings/typed_settings"


def main() -> None:
    """Writes the files; those that tests write come last, since tests read the others."""
    settings = ROOT / SETTINGS.replace("typed", "build")
    settings.with_suffix(".py").write_text(output_of(SETTINGS.replace("/", ".")), encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if marker := MARKER.search(text):
            page.write_text(text[: marker.end()] + output_of(marker[1]), encoding="utf-8")
    output_of("tests.docs.tutorial_notebook")
    run_tests("tests/cases", "--update-cases")
    (ROOT / "docs/datasets.md").write_text(output_of("tests.docs.datasets_page"), encoding="utf-8")
    named = {test.partition("[")[0] for tests in json.loads(SNAPSHOT.read_text()).values() for test in tests}
    run_tests(*sorted(filter(is_there, named)), "--update-refusals")


def output_of(module: str) -> str:
    """Returns what a module prints."""
    print(f"python -m {module}", flush=True)
    return subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


def run_tests(*words: str) -> None:
    """Runs tests with an option that writes files; a test that fails has nothing to write."""
    print(f"pytest {words[-1]}", flush=True)
    subprocess.run([sys.executable, "-m", "pytest", "--disable-warnings", *words], cwd=ROOT, check=False)


if __name__ == "__main__":
    main()
