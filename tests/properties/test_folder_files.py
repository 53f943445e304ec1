"""Files of a folder that the YAML of cases cannot write: links, pipes, and names that are not UTF-8."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_tfrecords import RequestError, build
from tests.pictures import picture
from tests.published import Published, read_published
from tests.refusals import expect
from tests.writers import save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with two classes."""
    for name in ("cat/1.png", "dog/2.png"):
        save(tmp_path / "in" / name, picture("red 2x2"))
    return tmp_path / "in"


def publish(folder: Path, **settings: object) -> Published:
    settings = {"input": str(folder), "max_failures": 1, **settings}
    return read_published(build(output=f"{folder.parent}/out", quiet=True, **settings).path)


def refused(folder: Path, code: str, **settings: object) -> None:
    with pytest.raises(RequestError) as error:
        publish(folder, **settings)
    expect(code, "input").check(error.value)


def test_links_are_followed_and_those_that_lead_nowhere_are_failures(folder):
    save(folder.parent / "elsewhere/3.png", picture("green 2x2"))
    (folder / "emu").symlink_to(folder.parent / "elsewhere")
    for name, target in (("gone.png", "nowhere.png"), ("itself.png", "itself.png"), ("gone", "nowhere")):
        (folder / "cat" / name).symlink_to(target)
    os.mkfifo(folder / "cat/pipe.png")
    published = publish(folder)
    assert {one.key for one in published.records} == {"cat/1.png", "dog/2.png", "emu/3.png"}
    assert published.manifest["class_names"] == ["cat", "dog", "emu"]
    assert published.failures.keys() == {f"cat/{name}" for name in ("gone.png", "itself.png", "gone", "pipe.png")}


def test_names_that_are_not_utf8_are_failures_with_printable_names(folder):
    for name in (b"cat/caf\xe9.png", b"cat/caf\xe9.t\xe9t"):
        (folder / os.fsdecode(name)).write_bytes(picture("red 2x2"))
    published = publish(folder)
    assert [text.partition(":")[0] for text in published.failures.values()] == ["unreadable"]
    assert [*published.failures] == ["cat/caf\\xe9.png"]
    assert published.manifest["skipped"][".t\\xe9t"]["files"] == 1


def test_inputs_that_are_not_utf8_are_refused(folder):
    root = folder.parent / os.fsdecode(b"caf\xe9")
    folder.rename(root)
    with pytest.raises(RequestError) as error:
        build(output=f"{folder.parent}/out", quiet=True, input=str(root))
    expect("not_utf8", "input").check(error.value)


@pytest.mark.parametrize("name", ["a.csv", "a.tar"])
def test_files_that_a_glob_matches_are_refused_if_their_names_are_not_utf8(folder, name):
    (folder / os.fsdecode(b"\xff" + name.encode())).write_text("label\n1\n")
    refused(folder, "not_utf8", input=f"{folder}/*{name}")


def test_a_glob_that_matches_a_broken_link_is_refused(folder):
    save(folder / "a.csv", "label\n1\n")
    (folder / "b.csv").symlink_to("nowhere.csv")
    refused(folder, "not_a_file", input=f"{folder}/*.csv")


def test_a_file_uri_is_a_local_path(folder):
    folder.rename(folder.parent / "my photos")
    published = publish(folder, input=f"file://{folder.parent}/my%20photos")
    assert {one.key for one in published.records} == {"cat/1.png", "dog/2.png"}


def test_odd_extensions_are_counted_in_bounded_memory(folder):
    for number in range(300):
        save(folder / f"cat/frame.{number:04d}", "x")
    skipped = publish(folder).manifest["skipped"]
    assert (len(skipped), skipped["other"]["files"]) == (101, 200)
