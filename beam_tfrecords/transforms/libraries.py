"""What decides the output beside the request: versions of libraries, revisions of our code, and what machines make."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import platform
import socket
import zlib
from collections.abc import Mapping

from beam_tfrecords import examples
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms import images

# Our version changes with much that decides no record, and code may change between two versions.
_REVISIONS = {"image-revision": str(images.REVISION), "example-revision": str(examples.REVISION)}
# Library -> the module that is imported, and the name of its version. What a package's metadata say is not asked: two
# packages may bring one module, as opencv-python and opencv-python-headless do.
_RECORD_MODULES = {
    "Pillow": ("PIL", "__version__"),
    "simplejpeg": ("simplejpeg", "__version__"),
    "opencv-python-headless": ("cv2.version", "opencv_version"),
    "numpy": ("numpy", "__version__"),
    "protobuf": ("google.protobuf", "__version__"),
}
# A module that does not say its version.
_RECORD_PACKAGES = ("cykooz-resizer",)
_RECORD_LIBRARIES = (*_RECORD_MODULES, *_RECORD_PACKAGES)
# Equal versions may make other bytes: zlib is the system's, and some code differs between processors.
_PROBES = {step: f"{step}-probe" for step in images.PROBED_STEPS}
# It decodes HEIC files; without it they are failures, which another machine must not convert.
_OPTIONAL_LIBRARY = "pillow-heif"
_OTHER_LIBRARIES = ("beam-tfrecords", "apache-beam", "pyarrow", "blake3")


@functools.cache
def library_versions() -> Mapping[str, str]:
    """Library -> version that is installed here; Python, our revisions and the digests of probes are included."""
    # The codecs, which a look at a manifest does not need.
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
    """Those that decide the bytes of a record.

    Args:
      versions: from `library_versions`, or from a manifest. Those of format 1 have no revisions; there was one only.
    """
    revisions = {name: versions.get(name, "1") for name in _REVISIONS}
    optional = {name: version for name, version in versions.items() if name == _OPTIONAL_LIBRARY}
    return {**revisions, **{name: versions.get(name) for name in (*_RECORD_LIBRARIES, *_PROBES.values())}, **optional}


def check_libraries(expected: Mapping[str, str], *, launcher: str) -> None:
    """Checks that records made here are those that the launcher would make.

    Args:
      expected: from `library_versions` on the launcher.
      launcher: host name of the launcher.

    Raises:
      BuildError: a library that decides the bytes of a record has another version here, or makes other bytes.
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
