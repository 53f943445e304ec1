"""Archives in a bucket, whose annotations and images are read there: the dataset of the folder on a disk."""

from __future__ import annotations

import pytest

from tests.archive_files import pack_folder
from tests.each import each
from tests.integration.buckets import build, content_of, services, upload
from tests.writers import MEANING, WRITERS

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with services(tmp_path_factory.mktemp("services"), "s3") as found:
        yield found


@each("name", ["set.zip", "set.tar", "set.tar.gz"])
@each("form", ["voc", "yolo"])
def test_a_build_of_an_archive_in_a_bucket_is_that_of_the_folder(form, name, running, tmp_path):
    settings = WRITERS[form].write(tmp_path, MEANING)
    root = next((tmp_path / one for one in ("in", "VOC") if (tmp_path / one).exists()), tmp_path)
    packed = tmp_path.parent / f"packed {form} {name}"
    pack_folder(root, packed / name)
    upload(packed, f"s3://photos/{form}")
    place = settings["input"].removeprefix(str(root))
    flags = [f"--source={settings['source']}"] if "source" in settings else []
    flags += ["--name=set", "--image_encoding=png"]
    build(f"--input={settings['input']}", f"--output={packed}/out", *flags)
    output, archive = f"s3://datasets/{form}-{name}", f"s3://photos/{form}/{name}"
    build(f"--input={archive}{f'#{place}' if place else ''}", f"--output={output}", *flags)
    of_folder, found = content_of(f"{packed}/out"), content_of(output)
    shards = [file for file in of_folder if "tfrecord-" in file]
    assert {file: found[file] for file in shards} == {file: of_folder[file] for file in shards}
