"""A folder inside an archive means what the extracted folder means: the same records, failures, notes and refusals."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from beam_tfrecords import BuildError, RequestError, build
from tests.archive_files import pack_folder
from tests.cases.loading import read_area
from tests.pictures import picture
from tests.published import read_published
from tests.writers import MEANING, WRITERS, save

ARCHIVES = ("in.zip", "in.tar", "in.tar.gz")
# Formats of files and folders; a WebDataset is an archive itself, and others hold their pictures.
FORMATS = (
    "class_folders", "split_folders", "csv_table", "jsonl_table", "parquet_table", "metadata_folder", "list_file",
    "coco", "yolo", "voc", "xml_beside_images", "labelme", "createml", "csv_boxes", "parquet_images", "tfrecord", "npz",
)  # fmt: skip


def nothing(folder: Path) -> None:
    pass


def remove_an_image(folder: Path) -> None:
    for image in folder.rglob("a1.png"):
        image.unlink()


def break_an_image(folder: Path) -> None:
    for image in folder.rglob("a2.png"):
        image.write_bytes(b"no picture")


def cut_a_document(folder: Path) -> None:
    documents = [one for one in sorted(folder.rglob("*")) if one.suffix in (".json", ".xml", ".csv", ".txt", ".jsonl")]
    for document in documents[:1]:
        document.write_bytes(document.read_bytes()[:-40])


def add_other_files(folder: Path) -> None:
    save(folder / "README.md", "x")
    save(folder / ".hidden/a9.png", "x")
    save(folder / "notes/more.txt", "x")


def outcome(settings: dict[str, Any], output: Path, shown: Callable[[str], str]) -> dict[str, Any]:
    """Returns what a build gives, without the names of its input."""
    try:
        dataset = build(output=str(output), quiet=True, name="set", max_failures=1, image_encoding="png", **settings)
    except RequestError as error:
        offers = [shown(str(one)) for one in error.suggestions]
        return {"refused": error.code, "says": shown(error.message), "offers": offers}
    except BuildError as error:
        return {"fails": shown(str(error))}
    published = read_published(dataset.path)
    rows = (row for path in sorted(Path(dataset.path).glob("index/*")) for row in pq.read_table(path).to_pylist())
    lists = [Path(dataset.path, f"{name}.jsonl").read_text() for name in ("failures", "duplicates")]
    return {
        "places": {row["key"]: shown(row["uri"]) for row in rows},
        "lists": [[shown(value) for value in re.findall(r'"uri": "([^"]*)', text)] for text in lists],
        "records": [published.describe(record) for record in published.records],
        "shards": published.shards,
        "failures": {key: shown(text) for key, text in published.failures.items()},
        "skipped": published.manifest["skipped"],
        # The folders of an archive are those of its members.
        "notes": [shown(note) for note in published.manifest["notes"] if "no image in the folder" not in note],
    }


@pytest.mark.parametrize("change", [nothing, remove_an_image, break_an_image, cut_a_document, add_other_files])
@pytest.mark.parametrize("name", FORMATS)
def test_an_archive_gives_what_its_folder_gives(name, change, tmp_path):
    writer = WRITERS[name]
    folder = tmp_path / "in"
    folder.mkdir()
    settings = writer.write(folder, writer.fit(MEANING))
    root = folder
    if (folder / "in").exists():
        root = folder / "in"
    change(root)
    compare(root, settings, tmp_path, ARCHIVES)


# The folders of an archive are known when it has been listed: a request that names another one finds no images there.
# The other message names the source.
_DIFFERENT = ("the request names a split folder that is not there", "folders have no columns")
FOLDERS = [
    one
    for name, one in read_area("folders").items()
    if one.files and one.settings.get("input") == "." and "source" not in one.settings and name not in _DIFFERENT
]


@pytest.mark.parametrize("case", FOLDERS, ids=str)
def test_an_archive_of_folders_means_what_the_folders_mean(case, tmp_path):
    root = tmp_path / "in"
    case.write(root)
    settings = {name: value for name, value in case.settings.items() if name not in ("max_failures", "image_encoding")}
    compare(root, {**settings, "input": str(root)}, tmp_path, ["in.tar"])


def compare(root: Path, settings: dict[str, Any], folder: Path, archives: Sequence[str]) -> None:
    """Builds a folder and archives of it, and compares what these give."""
    expected = outcome(settings, folder / "out", lambda text: _without(text, f"{root}/", str(root), "in/"))
    for archive in archives:
        path = folder / archive
        pack_folder(root, path)
        moved = {key: _moved(value, str(root), str(path)) for key, value in settings.items()}
        names = (f"{path}#/", f"{path}#", str(path), f"{archive}#/", f"{archive}#", archive)
        found = outcome(moved, folder / f"out_{archive}", lambda text, names=names: _without(text, *names))
        assert found == expected, archive


# Labels beside the images, splits, and what only wraps other folders.
TREES = (
    "APTOS 2019", "CelebA, the original tree", "Places365, validation", "SUN397", "Intel image classification",
    "splits below the classes", "class folders at different depths", "COCO 2017", "Objects365, train",
)  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_an_archive_of_a_public_dataset_is_asked_about_as_its_folder(name, tmp_path):
    root = tmp_path / "in"
    read_area("public")[name].write(root)
    expected = outcome(
        {"input": str(root)}, tmp_path / "out", lambda text: _without(text, f"{root}/", str(root), "in/")
    )
    assert expected.get("offers") or expected["records"]
    for archive in ("in.zip", "in.tar.gz"):
        path = tmp_path / archive
        pack_folder(root, path)
        names = (f"{path}#/", f"{path}#", str(path), f"{archive}#/", f"{archive}#", archive)
        found = outcome({"input": str(path)}, tmp_path / archive[3:], lambda text, names=names: _without(text, *names))
        assert found == expected, archive


def test_an_offer_of_an_archive_says_what_it_leaves(tmp_path):
    for number in range(6):
        save(tmp_path / f"in/images/{number}.png", picture("red 8x8"))
    rows = [(f"{number}.png", "cat" if number % 2 else "dog", "train" if number % 3 else "test") for number in range(6)]
    save(tmp_path / "in/labels.csv", "image,label\n" + "".join(f"{name},{label}\n" for name, label, _ in rows))
    save(tmp_path / "in/splits.csv", "image,split\n" + "".join(f"{name},{split}\n" for name, _, split in rows))
    pack_folder(tmp_path / "in", tmp_path / "in.zip")
    for name in ("in", "in.zip"):
        with pytest.raises(RequestError) as refused:
            build(input=f"{tmp_path}/{name}", output=f"{tmp_path}/out", quiet=True)
        assert "6 images, 2 classes; leaves splits.csv" in [one.gives for one in refused.value.suggestions], name


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_unchanged_archive_is_not_read_again(kind, tmp_path):
    path, output = tmp_path / f"in.{kind}", tmp_path / "out"
    WRITERS["class_folders"].write(tmp_path, MEANING)
    pack_folder(tmp_path / "in", path)
    settings = {"input": str(path), "output": str(output), "quiet": True, "versioned": True, "guard": "off"}
    first = build(**settings)
    # Nobody who reads it would take it for an archive.
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(b"x" * len(content))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert build(**settings).path == first.path
    assert {one.name for one in output.iterdir()} == {Path(first.path).name, "LATEST", "UNCHANGED"}
    for more in ({"fingerprint": "content"}, {"seed": 1}):  # what says nothing about the bytes reads them
        with pytest.raises(RequestError):
            build(**settings, **more)
    path.write_bytes(content)  # another time is another archive
    assert build(**settings).path != first.path


def _without(text: str, *names: str) -> str:
    """Returns a text that names the folder or the archive only as `in`."""
    for name in names:
        text = re.sub(rf"(?<!\w){re.escape(name)}", "" if name.endswith(("/", "#")) else "in", text)
    return text


def _moved(value: Any, root: str, archive: str) -> Any:
    """Returns a setting with paths into an archive instead of a folder."""
    if isinstance(value, list):
        return [_moved(one, root, archive) for one in value]
    if not isinstance(value, str):
        return value
    return archive if value == root else re.sub(f"{re.escape(root)}(?=/|$)", f"{archive}#", value)


@pytest.mark.nightly
@pytest.mark.local_runner
def test_every_process_reads_the_images_of_a_table_in_a_compressed_archive(tmp_path):
    """A large table is listed by other processes than convert its images."""
    rows = (f"{number},{number % 40}.png,{'cat' if number % 2 else 'dog'},{'x' * 90}\n" for number in range(60_000))
    save(tmp_path / "in/table.csv", "id,image,label,note\n" + "".join(rows))
    for number in range(40):
        save(tmp_path / f"in/{number}.png", picture("red 8x8"))
    pack_folder(tmp_path / "in", tmp_path / "in.tar.gz")
    table = {"input": f"{tmp_path}/in.tar.gz#/table.csv", "key_column": "id", "limit": 100}
    dataset = build(output=f"{tmp_path}/out", quiet=True, **table)
    assert dataset.num_records == 100
    assert not (tmp_path / "out/.build").exists()
