"""One listing answers the questions about a small folder as the store does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from beam_tfrecords.storage import surveys
from beam_tfrecords.storage.entries import AccessDeniedError, AnonymousAccessError, FileEntry

ROOT = "gs://bucket/photos"
NAMES = ["classes.txt", "cat/1.jpg", "cat/2.jpg", "dog/a/3.jpg", "dog.txt"]


class Store:
    """A store with some objects, which counts its requests."""

    def __init__(self, names: list[str]) -> None:
        self.paths = [f"{ROOT}/{name}" for name in names]
        self.asked = 0

    def exists(self, path: str) -> bool:
        self.asked += 1
        return path in self.paths

    def list_files(self, root: str, *, limit: int | None, **_: Any) -> Iterator[FileEntry]:
        self.asked += 1
        found = [FileEntry(path, 1, 0) for path in self.paths if path.startswith(f"{root}/")]
        return iter(found[:limit])

    def read_bytes(self, path: str) -> bytes:
        return path.encode()


def test_a_small_folder_is_asked_once():
    store = Store(NAMES)
    with surveys.surveying():
        surveys.survey_folder(store, ROOT)
        known = surveys.find_survey(f"{ROOT}/cat")
        assert surveys.find_survey(ROOT) is known
        for name in (*NAMES, "_SUCCESS", "cat", "cat/3.jpg"):
            assert known.exists(f"{ROOT}/{name}") is (name in NAMES)
        words = {"limit": None, "special": False, "literal": True}
        assert [entry.path for entry in known.list_files(ROOT, **words)] == store.paths
        assert [entry.path for entry in known.list_files(f"{ROOT}/cat", **{**words, "limit": 1})] == store.paths[1:2]
        assert (known.list_folders(ROOT), known.list_folders(f"{ROOT}/dog")) == (["cat", "dog"], ["a"])
        assert known.read_bytes(ROOT) == ROOT.encode()
        assert store.asked == 1
        assert surveys.find_survey("gs://bucket/photos2/x") is None
    assert surveys.find_survey(ROOT) is None


def test_the_folder_itself_may_be_a_file_and_globs_are_the_store_s():
    store = Store([])
    store.paths.append(ROOT)
    with surveys.surveying():
        surveys.survey_folder(store, ROOT)
        assert surveys.find_survey(ROOT).exists(ROOT)
        list(surveys.find_survey(ROOT).list_files(f"{ROOT}/*.jpg", limit=None, special=False, literal=False))
    assert store.asked == 3


def test_a_survey_that_the_store_denies_without_credentials_leaves_each_question_to_the_store():
    listing = []

    def deny(*_: Any, **__: Any) -> Iterator[FileEntry]:
        listing.append(surveys.is_listing())
        raise AnonymousAccessError("gs://bucket/photos: access denied")

    store = Store(NAMES)
    store.list_files = deny  # type: ignore[method-assign]
    with surveys.surveying():
        surveys.survey_folder(store, ROOT)
        assert surveys.find_survey(ROOT) is None
    assert (listing, surveys.is_listing()) == ([True], False)


@pytest.mark.parametrize("names", [[f"{number}.jpg" for number in range(surveys.PAGE)], None])
def test_large_folders_and_folders_that_may_not_be_listed_are_asked_each_time(names):
    store = Store(names or [])
    if names is None:
        store.list_files = _refuse  # type: ignore[method-assign]
    with surveys.surveying():
        surveys.survey_folder(store, ROOT)
        assert surveys.find_survey(ROOT) is None
    surveys.survey_folder(Store(NAMES), ROOT)
    assert surveys.find_survey(ROOT) is None


def _refuse(*_: Any, **__: Any) -> Iterator[FileEntry]:
    raise AccessDeniedError("gs://bucket/photos", "storage.objects.list")
