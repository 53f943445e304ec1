"""Images that a table or a file of annotations names, and masks: where they are."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.refs.sample_refs import MASK, File, SampleRef
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.path_rule import resolve, shorten


def find_image(image: str, *, roots: Sequence[str], allow_outside_root: bool) -> str:
    """Path or URI of an image, in the folder that has it; in the last if none has.

    Raises:
      SampleError: as `find_all`, or several folders have it.
      BuildError: a service fault.
    """
    if len(roots) > 1:
        found = find_all(image, roots=roots, allow_outside_root=allow_outside_root)
        if len(found) > 1:
            detail = f"the name is that of several images: {', '.join(map(shorten, found))}"
            raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)
        if found:
            return found[0]
    return resolve(image, root=roots[-1], allow_outside_root=allow_outside_root)


def find_all(image: str, *, roots: Sequence[str], allow_outside_root: bool) -> list[str]:
    """Paths or URIs of an image in the folders that have it; of a URL, no folder is asked.

    Raises:
      SampleError: as `resolve`, or one of the folders may not be looked into.
      BuildError: a service fault.
    """
    found: list[str] = []
    for uri in dict.fromkeys(resolve(image, root=root, allow_outside_root=allow_outside_root) for root in roots):
        if storage.is_web(uri):
            return found or [uri]
        if _exists(uri):
            found.append(uri)
    return found


def _exists(uri: str) -> bool:
    try:
        return retry_faults(uri, functools.partial(storage.exists, uri))
    except OSError as error:
        # The image of another folder is another image.
        detail = f"{error.strerror or error}: {shorten(uri)}"
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, detail) from error


def with_mask(ref: SampleRef, mask: storage.FileEntry) -> SampleRef:
    """The sample with the mask of its image."""
    images = {**ref.images, MASK: File(mask.path, mask.version)}
    return dataclasses.replace(ref, images=images, fingerprint=f"{ref.fingerprint}+{mask.fingerprint}")


def of_path(fingerprint: str, path: str) -> str:
    """The fingerprint of a file that the key does not name: another may have the same size and time."""
    return fingerprint and f"{fingerprint}@{path}"


def join_fingerprints(fingerprints: Collection[str]) -> str:
    """The fingerprint of several files; "" if that of any is not known."""
    return "" if "" in fingerprints else "+".join(fingerprints)


def look(uri: str) -> tuple[int, str, str]:
    """Size, fingerprint and version of a local image; a remote one would cost a request per row."""
    if storage.has_scheme(uri):
        # Without it no row of this scheme could be read: the request is wrong, not the row.
        storage.check_scheme(uri)
        return 0, "", ""
    try:
        entry = retry_faults(uri, lambda: storage.stat(uri))
    except FileNotFoundError as error:
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, f"no such file: {shorten(uri)}") from error
    except OSError as error:
        detail = f"{error.strerror or 'not a regular file'}: {shorten(uri)}"
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, detail) from error
    return entry.size, entry.fingerprint, entry.version
