"""Versions of the libraries that decide the output."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import socket
from collections.abc import Mapping

from beam_tfrecords.errors import BuildError

# Those that decide the bytes of a record.
RECORD_LIBRARIES = ("beam-tfrecords", "Pillow", "simplejpeg", "opencv-python-headless", "numpy", "protobuf")
_LIBRARIES = (*RECORD_LIBRARIES, "apache-beam", "pyarrow", "blake3")


@functools.cache
def library_versions() -> Mapping[str, str]:
    """Library -> version that is installed here, Python itself included."""
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def check_libraries(expected: Mapping[str, str]) -> None:
    """Checks that records made here are those that the launcher would make.

    Args:
      expected: library -> version of the launcher.

    Raises:
      BuildError: a library that decides the bytes of a record has another version here.
    """
    here = library_versions()
    for name, version in expected.items():
        if name in RECORD_LIBRARIES and here[name] != version:
            raise BuildError(
                f"{name} is {here[name]} on {socket.gethostname()}, and {version} where the build was started; other "
                "versions make other bytes, so install the same ones on all machines"
            )
