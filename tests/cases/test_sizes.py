"""A folder of images means the same whether it holds a few images or thousands."""

from __future__ import annotations

import posixpath
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import RequestError, build
from tests.cases.loading import PLAIN, Case, read_cases
from tests.published import read_published

# More than the names that are kept of a folder.
_IMAGES = 200
_NUMBER = re.compile(r"\d+")


def _numbered(case: Case) -> list[str]:
    """Returns the pictures of a case; none if it has other files, or pictures without a number to count on."""
    names = [name for name, value in case.files.items() if name in case.images or value == PLAIN]
    are_all = names == [*case.files] and not (case.archives or case.pack or case.damage or case.before)
    return names if are_all and all(_NUMBER.search(name.rpartition("/")[2]) for name in names) else []


# Copies of few pictures look alike, the number of a step in a folder says nothing of other folders, and copies count.
_OTHERS = frozenset({
    "sizes vary alike in two folders", "photos of one thing look alike", "each folder is one sample with a counter",
    "folders have the same numbers, which count nothing", "nearly each image has a folder of its own",
})  # fmt: skip
# Settings that say what names mean, or draw splits.
_SAID = frozenset({"label_pattern", "splits", "layout"})
_CASES = [case for case in read_cases() if _numbered(case) and case.name not in _OTHERS]
_REFUSED = [case for case in _CASES if "refused" in case.stated]
_READ = [case for case in _CASES if case not in _REFUSED and _SAID.isdisjoint(case.settings)]


@pytest.mark.parametrize("case", [*_REFUSED, *(pytest.param(one, marks=pytest.mark.nightly) for one in _READ)], ids=str)
def test_what_is_read_or_offered_first_does_not_depend_on_the_number_of_images(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    case.write(Path())
    few = _meaning(case)
    _enlarge(_numbered(case))
    assert _meaning(case) == few


def _enlarge(names: list[str]) -> None:
    """Copies pictures, and counts on from the numbers in their names, in each folder from its own."""
    folders: dict[str, list[int]] = {}
    parts = [(name, posixpath.dirname(name), _NUMBER.split(posixpath.basename(name), maxsplit=1)) for name in names]
    numbers = [int(_NUMBER.findall(posixpath.basename(name))[0]) for name in names]
    for (_, folder, _), number in zip(parts, numbers, strict=True):
        folders.setdefault(folder, []).append(number)
    for copy in range(1, _IMAGES // len(names) + 1):
        for (name, folder, (before, after)), number in zip(parts, numbers, strict=True):
            count = max(folders[folder]) - min(folders[folder]) + 1
            width = len(posixpath.basename(name)) - len(before) - len(after)
            shutil.copyfile(name, posixpath.join(folder, f"{before}{number + copy * count:0{width}}{after}"))


def _meaning(case: Case) -> tuple[str, Any]:
    """Returns the code of the refusal of a case and the settings of its first offer, or what is beside the pictures."""
    with tempfile.TemporaryDirectory() as output:
        try:
            published = read_published(build(output=f"{output}/out", quiet=True, **case.settings).path)
        except RequestError as error:
            return error.code, error.suggestions[0].settings if error.suggestions else None
    return "", {(one.split, published.describe(one).partition("; ")[2]) for one in published.records}
