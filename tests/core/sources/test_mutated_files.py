"""Damaged inputs of every source: a listing ends in samples, failures or one line, soon and in bounded memory."""

from __future__ import annotations

import random
import resource
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.features.contents import Content, contents_in
from beam_tfrecords.transforms.settings import read_settings, settings_of
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.opening import open_input
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from tests.core.opened_sources import OpenedSource
from tests.each import each
from tests.writers import WRITERS, Settings, Writer

_SECONDS, _BYTES = 30, 500 << 20
_IMAGES = (".jpg", ".png")
# Functions of the user are no files, and the build recognizes datasets of ours before it opens a source.
FORMS = sorted(WRITERS.keys() - {"function", "own_dataset"})
# What parsers trip over, as text and as binary numbers.
_TOKENS = (
    b"\0", b"\xff", b"\n", b'"', b"'", b"[", b"{", b"(", b"]", b",", b":", b"../", b"\xef\xbb\xbf", b"\xff\xfe", b"NaN",
    b"-1", b"1e999", b"99999999999999999999", b"null", b"\x1b[2J", b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\0" * 8,
    b"\x80" * 10, b"[" * 3000, b"!!python/object/apply:os.system", b"&a [*a]", b"<!DOCTYPE x>", b"<a>" * 500,
)  # fmt: skip


def mutate(data: bytes, chosen: random.Random) -> bytes:
    """A file with one to four changes."""
    changed = bytearray(data)
    for _ in range(chosen.choice((1, 1, 2, 4))):
        # Headers and footers are where formats are decided.
        edge = min(len(changed), 600)
        near = (
            chosen.randrange(edge + 1),
            len(changed) - chosen.randrange(edge + 1),
            chosen.randrange(len(changed) + 1),
        )
        at = chosen.choice(near)
        length = chosen.choice((1, 2, 4, 8, 64, 4096))
        match chosen.randrange(7):
            case 0:
                changed[at : at + 1] = bytes([chosen.randrange(256)])
            case 1:
                changed[at : at + 1] = bytes([changed[at] ^ (1 << chosen.randrange(8))]) if at < len(changed) else b""
            case 2:
                del changed[at:]
            case 3:
                del changed[at : at + length]
            case 4:
                changed[at:at] = changed[at : at + length]
            case 5:
                changed[at : at + len(token)] = (token := chosen.choice(_TOKENS))
            case 6:
                changed[at:at] = chosen.choice(_TOKENS)
    return bytes(changed)


def damageable(folder: Path) -> list[Path]:
    """The files of a form that parsers read; the images of one that has no others."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if path.suffix not in _IMAGES] or files


def request(writer: Writer, settings: Settings) -> tuple[SourceSpec, Needs]:
    """The request of a written input."""
    known = {one.name for one in settings_of(SourceSpec)}
    found = {Content.IMAGE: True, Content.MASK: "mask" in writer.holds, Content.OBJECTS: "objects" in writer.holds}
    given: dict[str, Any] = {name: value for name, value in settings.items() if name in known}
    return read_settings(SourceSpec, given), Needs(contents_in(found))


def list_all(spec: SourceSpec, needs: Needs, staging: Path) -> int:
    """Lists an input as builds do; returns the number of its samples."""
    source = OpenedSource(open_input(spec, needs).read(needs))
    source.check(1)
    return sum(1 for _ in source.read_all(staging))


def _end(*_: object) -> None:
    raise AssertionError(f"no end after {_SECONDS} seconds")


@pytest.fixture
def limited() -> Iterator[None]:
    """A listing that takes too long is an error, and so is one that takes too much memory."""
    before = signal.signal(signal.SIGALRM, _end)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _try(name: str, folder: Path, *, seed: int, count: int) -> None:
    settings = WRITERS[name].make(folder / "form")
    files = damageable(folder / "form")
    spec, needs = request(WRITERS[name], settings)
    assert list_all(spec, needs, folder / "staging")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        chosen = random.Random(f"{name} {seed} {number}")
        path = chosen.choice(files)
        data = path.read_bytes()
        path.write_bytes(mutate(data, chosen))
        signal.alarm(_SECONDS)
        try:
            list_all(spec, needs, folder / "staging")
        except (RequestError, BuildError):
            pass
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}, number {number}, {path.name}") from error
        finally:
            signal.alarm(0)
            path.write_bytes(data)
            shutil.rmtree(folder / "staging", ignore_errors=True)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024 < _BYTES


@pytest.mark.usefixtures("limited")
@each("name", FORMS)
def test_a_damaged_input_ends_in_failures_or_one_line(name, tmp_path):
    _try(name, tmp_path, seed=30, count=4)


@pytest.mark.nightly
@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("name", FORMS)
def test_20_000_damaged_inputs_end_in_failures_or_one_line(name, tmp_path):
    _try(name, tmp_path, seed=31, count=20_000 // len(FORMS) + 1)
