"""Versions of libraries and of our code, and probes of the machine, which affect the output besides the request."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import platform
import socket
import zlib
from collections.abc import Mapping

from beam_tfrecords import features
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms import images

# Revisions instead of our version, which also changes without effect on records, and may not change with our code.
_REVISIONS = {"image-revision": str(images.REVISION), "example-revision": str(features.REVISION)}
# Library -> its module, and the name of the version in it. Package metadata could be wrong, because two packages may
# install the same module, such as opencv-python and opencv-python-headless.
_RECORD_MODULES = {
    "Pillow": ("PIL", "__version__"),
    "simplejpeg": ("simplejpeg", "__version__"),
    "opencv-python-headless": ("cv2.version", "opencv_version"),
    "numpy": ("numpy", "__version__"),
    "protobuf": ("google.protobuf", "__version__"),
}
# Packages whose modules do not contain their version.
_RECORD_PACKAGES = ("cykooz-resizer",)
_RECORD_LIBRARIES = (*_RECORD_MODULES, *_RECORD_PACKAGES)
# Equal versions may still write different bytes: zlib comes from the system, and some code differs between processors.
_PROBES = {step: f"{step}-probe" for step in images.PROBED_STEPS}
# Decodes HEIC files. Without it these files are failures, so all machines need the same version or none.
_OPTIONAL_LIBRARY = "pillow-heif"
_OTHER_LIBRARIES = ("beam-tfrecords", "apache-beam", "pyarrow", "blake3")


@functools.cache
def library_versions() -> Mapping[str, str]:
    """Returns library -> installed version, with Python, our revisions and the digests of probes."""
    # Imports the codecs, which programs that only read a manifest do not need.
    from beam_tfrecords.transforms.images.probe import probe_digests

    return {
        "python": platform.python_version(),
        **_REVISIONS,
        **{name: getattr(importlib.import_module(module), word) for name, (module, word) in _RECORD_MODULES.items()},
        **{name: importlib.metadata.version(name) for name in (*_RECORD_PACKAGES, *_OTHER_LIBRARIES)},
        **_optional_version(),
        **{_PROBES[step]: digest for step, digest in probe_digests().items()},
    }


def _optional_version() -> dict[str, str]:
    try:
        return {_OPTIONAL_LIBRARY: importlib.metadata.version(_OPTIONAL_LIBRARY)}
    except importlib.metadata.PackageNotFoundError:
        return {}


def record_versions(versions: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the versions that decide the bytes of a record.

    Args:
      versions: from `library_versions`, or from a manifest.
    """
    optional = {name: version for name, version in versions.items() if name == _OPTIONAL_LIBRARY}
    names = (*_REVISIONS, *_RECORD_LIBRARIES, *_PROBES.values())
    return {**{name: versions.get(name) for name in names}, **optional}


def check_libraries(expected: Mapping[str, str], *, launcher: str) -> None:
    """Checks that this machine makes the same records as the launcher.

    Args:
      expected: `library_versions` of the launcher.
      launcher: host name of the launcher.

    Raises:
      BuildError: a library that decides the bytes of a record has another version here, or writes other bytes.
    """
    here = record_versions(library_versions())
    for name in sorted({*expected.keys() & here.keys(), _OPTIONAL_LIBRARY}):
        if here.get(name) == expected.get(name):
            continue
        machine = socket.gethostname()
        if name in _PROBES.values():
            step = name.removesuffix("-probe")
            raise BuildError(
                f"{step}: {machine} ({_describe_machine()}) makes other bytes of the same image than {launcher}, where "
                "the build was started; use machines with the same system libraries, such as containers of one image"
            )
        raise BuildError(
            f"{name} is {here.get(name)} on {machine}, and {expected.get(name)} on {launcher}, where the build was "
            "started; other versions make other bytes, so install the same ones on all machines"
        )


def _describe_machine() -> str:
    return f"{platform.machine()}, zlib {zlib.ZLIB_RUNTIME_VERSION}"
