"""What the package imports is declared in setup.py."""

from __future__ import annotations

import ast
import functools
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.package_code import package_nodes

ROOT = Path(__file__).parents[1]
PACKAGE = "beam_tfrecords"
# Module -> the distribution that has it, where several share a namespace or it may not be installed here.
DISTRIBUTIONS = {
    # Before Python 3.11.
    "tomli": "tomli",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.storage": "google-cloud-storage",
    "google.protobuf": "protobuf",
    "boto3": "boto3",
    "cykooz_resizer": "cykooz-resizer",
    "botocore": "boto3",
    "requests": "requests",
    "tensorflow": "tensorflow",
    "pillow_heif": "pillow-heif",
    "pydicom": "pydicom",
    "nibabel": "nibabel",
    "pandas": "pandas",
    "torch": "torch",
    "grain": "grain",
    "urllib3": "urllib3",
}


def imported_modules() -> set[str]:
    """Modules that the package imports, anywhere in a module."""
    names: set[str] = set()
    for nodes in package_nodes().values():
        for node in nodes:
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.update({node.module} if node.module != "google.cloud" else {"google.cloud.storage"})
    return {name for name in names if name.partition(".")[0] not in {*sys.stdlib_module_names, PACKAGE}}


installed = functools.cache(packages_distributions)


def distribution_of(module: str) -> str:
    known = next((DISTRIBUTIONS[name] for name in DISTRIBUTIONS if f"{module}.".startswith(f"{name}.")), None)
    return known or installed()[module.partition(".")[0]][0]


def test_messages_and_pages_install_extras_that_there_are():
    def read(*paths: Path) -> str:
        return "".join(path.read_text(encoding="utf-8") for path in paths)

    modules = read(*(ROOT / PACKAGE).rglob("*.py"))
    pages = read(ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md"))
    declared = re.findall(r'^        "(\w+)": [A-Z]', read(ROOT / "setup.py"), re.MULTILINE)
    named = re.findall(r"install_hint\([\"'](\w+)[\"']\)", modules) + re.findall(r"pip install '\.\[(\w+)\]'", pages)
    assert {"gcp", "aws", "tensorflow", "dataflow"} <= {*named} <= {*declared}
    assert "beam-tfrecords[" not in modules + pages


def test_the_first_page_names_versions_of_python_that_the_package_takes():
    minors = re.search(r"for minor in \(([\d, ]+)\)", (ROOT / "setup.py").read_text())[1].split(", ")
    first, last = re.search(r"Python 3\.(\d+) to 3\.(\d+)", (ROOT / "README.md").read_text()).groups()
    assert first == minors[0]
    assert last in minors


def declared() -> set[str]:
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    lists = re.findall(
        r"^(?:INSTALL_REQUIRES|TENSORFLOW|TORCH|GRAIN|GCP|AWS|HEIF|MEDICAL|PANDAS) = \[(.*?)\]$",
        text,
        re.MULTILINE | re.DOTALL,
    )
    return {canonicalize_name(Requirement(word).name) for one in lists for word in re.findall(r'"([^"]+)"', one)}


def test_the_distribution_of_every_imported_module_is_declared():
    distributions = {module: canonicalize_name(distribution_of(module)) for module in imported_modules()}
    assert distributions
    assert {module: name for module, name in distributions.items() if name not in declared()} == {}
