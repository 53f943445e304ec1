"""The files of .github/ and .pre-commit-config.yaml, as their linters and schemas want them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.servers.processes import PROJECT, binary

pytestmark = pytest.mark.nightly

WORKFLOWS = sorted((PROJECT / ".github/workflows").glob("*.yml"))
DIST = PROJECT / ".venv-dist/bin"
SCHEMAS = {
    "github-workflows": WORKFLOWS,
    "github-issue-forms": sorted((PROJECT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")),
    "github-issue-config": [PROJECT / ".github/ISSUE_TEMPLATE/config.yml"],
    "dependabot": [PROJECT / ".github/dependabot.yml"],
}


def run(*words: str | Path) -> None:
    ran = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_actionlint_finds_nothing():
    run(binary("actionlint"), f"-shellcheck={Path(sys.executable).with_name('shellcheck')}", *WORKFLOWS)


def test_zizmor_finds_nothing():
    run(DIST / "zizmor", "--offline", "--no-progress", ".github")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_file_has_its_schema(schema):
    run(DIST / "check-jsonschema", f"--builtin-schema=vendor.{schema}", *SCHEMAS[schema])


def test_workflows_run_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    named = {name for path in WORKFLOWS for name in re.findall(r"run: make ([a-z-]+)", path.read_text())}
    assert {"test", "test-versions", "test-integration", "dist", "image", "docs"} <= named
    assert named <= targets


def test_hooks_run_the_checks_of_make_lint():
    hooks = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (PROJECT / "Makefile").read_text(), re.MULTILINE)[1]
    programs = set(re.findall(r"\$\(BIN\)/([a-z-]+)", recipe))
    assert {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks} == programs


def test_the_changelog_has_the_version_of_the_package():
    version = re.search(r'^VERSION = "(.*)"$', (PROJECT / "setup.py").read_text(), re.MULTILINE)[1]
    assert re.search(r"^## (\S+)", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version
