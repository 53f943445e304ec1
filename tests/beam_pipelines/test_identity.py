"""What is resumed, skipped or reused is what a build from scratch would make, whichever file was edited meanwhile."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.beam_pipelines.dataset_checks import shards_of
from tests.core.commands import Ran
from tests.identity_inputs import INPUTS, flags_of, write_states

FLAGS = [
    "--name=x",
    "--image_size=16",
    "--image_encoding=png",
    "--max_failures=1",
    "--no_report",
    "--num_shards=1",
    "--class_names=cat,dog",
]
ACCEPT = ["--versioned", "--accept=all"]


def test_every_source_has_an_input_here():
    # Scans need the extra `medical`: tests/integration/test_scans.py.
    page = (Path(__file__).parents[2] / "docs/sources.md").read_text()
    assert {*INPUTS} == {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)} - {"scans"}


def edited_kinds(others: dict[str, bytes]) -> list[str]:
    """One file of each folder and extension, the last: of many images, one is enough."""
    return list({(Path(name).parent, Path(name).suffix): name for name in sorted(others)}.values())


class Builds:
    """Builds of the input of a source."""

    def __init__(self, source: str, tmp_path: Path, convert: Callable[..., Ran], *words: str) -> None:
        self.root, self.others = write_states(source, tmp_path)
        self._output, self._convert = tmp_path, convert
        self._flags = [*flags_of(source, self.root), *FLAGS, *words]

    def build(self, output: str, *words: str) -> tuple[int, dict[str, bytes]]:
        """The exit code, and the shards that are published."""
        path = self._output / output
        ran = self._convert(f"--output={path}", *self._flags, *words)
        assert ran.code in (0, 3), ran.err
        latest = path / "LATEST"
        return ran.code, shards_of(path / latest.read_text().strip() if latest.exists() else path)

    def edit(self, name: str) -> None:
        """Gives a file the content of the other state, which is as long."""
        assert len(self.others[name]) == (self.root / name).stat().st_size
        (self.root / name).write_bytes(self.others[name])


@pytest.mark.parametrize("source", sorted(INPUTS))
def test_each_edited_file_is_seen_by_the_next_version_and_by_a_resumed_build(source, tmp_path, convert):
    builds = Builds(source, tmp_path, convert)
    assert builds.build("versions", "--versioned")[0] == 0
    for number, name in enumerate(edited_kinds(builds.others)):
        # Pictures 0 and 1 are the same.
        assert builds.build(f"resumed-{number}", "--duplicates=fail")[0] == 3
        builds.edit(name)
        code, expected = builds.build(f"scratch-{number}")
        assert code == 0
        assert builds.build("versions", *ACCEPT) == (0, expected), name
        assert builds.build(f"resumed-{number}") == (0, expected), name


@pytest.mark.nightly
@pytest.mark.parametrize("source", sorted(INPUTS))
def test_by_content_files_of_the_same_size_and_time_are_seen_to_be_edited(source, tmp_path, convert):
    builds = Builds(source, tmp_path, convert, "--fingerprint=content")
    assert builds.build("versions", "--versioned")[0] == 0
    assert builds.build("resumed", "--duplicates=fail")[0] == 3
    for name in builds.others:
        before = (builds.root / name).stat()
        builds.edit(name)
        os.utime(builds.root / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    code, expected = builds.build("scratch")
    assert code == 0
    assert builds.build("versions", *ACCEPT) == (0, expected)
    assert builds.build("resumed") == (0, expected)


@pytest.mark.parametrize("masks", [False, True], ids=["images", "masks"])
def test_files_elsewhere_are_not_taken_for_those_of_the_same_size_and_time(masks, tmp_path, convert, save):
    flags = [*FLAGS[:-1], "--layout=segmentation", f"--mask_root={tmp_path}/masks"] if masks else FLAGS
    for place in (0, 1):
        for number in range(8):
            name = f"cat/{number}.png"
            for folder, path in (("in", tmp_path / f"{place}/{name}"), ("masks", tmp_path / f"masks-{place}/{name}")):
                pixels = np.full((20, 20) if folder == "masks" else (20, 20, 3), 10 * number + place, np.uint8)
                save(path, pixels, compress_level=0)
                os.utime(path, (10**9, 10**9))
    assert (tmp_path / "0/cat/3.png").stat().st_size == (tmp_path / "1/cat/3.png").stat().st_size

    def build(output: str, place: int) -> dict[str, bytes]:
        here = [flag.replace("/masks", f"/masks-{place}") for flag in flags]
        ran = convert(f"--input={tmp_path}/{place}", f"--output={tmp_path / output}", *here, *ACCEPT)
        assert ran.code == 0, ran.err
        return shards_of(tmp_path / output / (tmp_path / output / "LATEST").read_text().strip())

    build("versions", 0)
    assert build("versions", 1) == build("scratch", 1)
