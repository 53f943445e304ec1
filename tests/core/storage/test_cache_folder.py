"""The folder that keeps ranges of files: what it gives, how large it becomes, and what else stays."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading

import pytest

from beam_tfrecords.storage import cache_folder
from beam_tfrecords.storage.cache_folder import CacheFolder

NAMES = [f"{number:032x}" for number in range(20)]


def test_ranges_are_given_as_they_were_kept(tmp_path):
    folder = CacheFolder(str(tmp_path / "cache"), 1 << 30)
    assert folder.read(NAMES[0], 0, 10) == b""
    folder.write(NAMES[0], 1000, b"later")
    folder.write(NAMES[0], 0, b"first")
    assert folder.read(NAMES[0], 0, 8) == b"first\0\0\0"
    assert folder.read(NAMES[0], 1000, 100) == b"later"
    again = pickle.loads(pickle.dumps(folder))
    assert again.read(NAMES[0]) == b"first" + bytes(995) + b"later"


def size_of(path) -> int:
    return sum(one.stat().st_blocks * 512 for one in path.glob("beam-tfrecords-" + "?" * 32))


def test_what_was_used_longest_ago_goes_first(tmp_path):
    folder = CacheFolder(str(tmp_path), 10 << 20)
    for number, name in enumerate(NAMES[:10]):
        folder.write(name, 0, os.urandom(1 << 20))
        os.utime(tmp_path / f"beam-tfrecords-{name}", (number, number))
    other = CacheFolder(str(tmp_path), 10 << 20)
    assert len(other.read(NAMES[0])) == 1 << 20  # used anew
    for name in NAMES[10:14]:
        other.write(name, 0, os.urandom(1 << 20))
    other.remove_oldest()
    left = {name for name in NAMES if (tmp_path / f"beam-tfrecords-{name}").exists()}
    assert left == {NAMES[0], *NAMES[5:14]}
    # This one had files open that have no name any more.
    assert folder.read(NAMES[1], 0, 9) == b""
    assert size_of(tmp_path) <= 10 << 20


def test_it_never_grows_much_beyond_its_size(tmp_path):
    folder = CacheFolder(str(tmp_path), 4 << 20)
    for number in range(100):
        folder.write(NAMES[number % 20], number << 18, os.urandom(1 << 18))
        assert size_of(tmp_path) <= (4 << 20) * 17 // 16 + (1 << 18)


def test_nothing_of_others_is_removed(tmp_path):
    own = [tmp_path / "beam-tfrecords-mine", tmp_path / "photo.jpg", tmp_path / f"beam-tfrecords-{NAMES[0]}.txt"]
    for path in own:
        path.write_bytes(bytes(10 << 20))
    (tmp_path / f"beam-tfrecords-{NAMES[1]}").mkdir()
    folder = CacheFolder(str(tmp_path), 1 << 20)
    folder.write(NAMES[2], 0, os.urandom(2 << 20))
    folder.remove_oldest()
    assert all(path.stat().st_size == 10 << 20 for path in own)
    assert not (tmp_path / f"beam-tfrecords-{NAMES[2]}").exists()


@pytest.mark.parametrize("is_file", [True, False])
def test_a_folder_that_cannot_be_used_is_said_once(tmp_path, monkeypatch, is_file):
    # A build that ran before in this process may have changed who hears of warnings.
    said = []
    monkeypatch.setattr(cache_folder._LOG, "warning", lambda text, *words: said.append(text % words))
    path = tmp_path / "cache"
    if is_file:
        path.write_text("")
    else:
        path.mkdir()
        (path / f"beam-tfrecords-{NAMES[0]}").symlink_to("/etc/hosts")
    folder = CacheFolder(str(path), 1 << 20)
    for _ in range(2):
        folder.write(NAMES[0], 0, b"abc")
        assert folder.read(NAMES[0], 0, 3) == b""
        with folder.filling(NAMES[0], 0):
            pass
    assert len([text for text in said if "cannot be used" in text]) == 1


def test_one_of_several_fills_a_range(tmp_path):
    folder = CacheFolder(str(tmp_path), 1 << 30)
    filled = []

    def fill() -> None:
        with folder.filling(NAMES[0], 0):
            if not folder.read(NAMES[0], 0, 5):
                filled.append(1)
                folder.write(NAMES[0], 0, b"bytes")

    threads = [threading.Thread(target=fill) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert filled == [1]


def test_a_process_that_was_forked_meanwhile_holds_nothing(tmp_path):
    code = f"""
import os, time
from beam_tfrecords.storage.cache_folder import CacheFolder
folder = CacheFolder({str(tmp_path)!r}, 1 << 30)
with folder.filling({NAMES[0]!r}, 0):
    child = os.fork()
    if child == 0:
        time.sleep(120)
        os._exit(0)
begin = time.monotonic()
with folder.filling({NAMES[0]!r}, 0):
    assert time.monotonic() - begin < 60
os.kill(child, 9)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
