"""Versions of the libraries that decide the output, and the revisions of our own code that does."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import socket
from collections.abc import Mapping

from beam_tfrecords import examples
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms import images

# Our version changes with much that decides no record, and code may change between two versions.
_REVISIONS = {"image-revision": str(images.REVISION), "example-revision": str(examples.REVISION)}
_RECORD_LIBRARIES = ("Pillow", "simplejpeg", "opencv-python-headless", "numpy", "protobuf")
# It decodes HEIC files; without it they are failures, which another machine must not convert.
_OPTIONAL_LIBRARY = "pillow-heif"
_OTHER_LIBRARIES = ("beam-tfrecords", "apache-beam", "pyarrow", "blake3")


@functools.cache
def library_versions() -> Mapping[str, str]:
    """Library -> version that is installed here, Python itself and our revisions included."""
    return {
        "python": platform.python_version(),
        **_REVISIONS,
        **{name: importlib.metadata.version(name) for name in (*_RECORD_LIBRARIES, *_OTHER_LIBRARIES)},
        **_optional_version(),
    }


def _optional_version() -> dict[str, str]:
    try:
        return {_OPTIONAL_LIBRARY: importlib.metadata.version(_OPTIONAL_LIBRARY)}
    except importlib.metadata.PackageNotFoundError:
        return {}


def record_versions(versions: Mapping[str, str]) -> dict[str, str | None]:
    """Those that decide the bytes of a record.

    Args:
      versions: from `library_versions`, or from a manifest. Those of format 1 have no revisions; there was one only.
    """
    revisions = {name: versions.get(name, "1") for name in _REVISIONS}
    optional = {name: version for name, version in versions.items() if name == _OPTIONAL_LIBRARY}
    return {**revisions, **{name: versions.get(name) for name in _RECORD_LIBRARIES}, **optional}


def check_libraries(expected: Mapping[str, str]) -> None:
    """Checks that records made here are those that the launcher would make.

    Raises:
      BuildError: a library that decides the bytes of a record has another version here.
    """
    here = record_versions(library_versions())
    for name in sorted({*expected.keys() & here.keys(), _OPTIONAL_LIBRARY}):
        if here.get(name) != expected.get(name):
            raise BuildError(
                f"{name} is {here.get(name)} on {socket.gethostname()}, and {expected.get(name)} where the build was "
                "started; other versions make other bytes, so install the same ones on all machines"
            )
