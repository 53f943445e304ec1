"""Finds the images that a table or an annotation file names, and their masks."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import unicodedata
from collections.abc import Collection, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.path_rule import resolve, shorten


def find_image(image: str, *, roots: Sequence[str], allow_outside_root: bool) -> str:
    """Returns the path or URI of an image, in the root that contains it; in the last root if none does.

    Raises:
      SampleError: as `find_all`, or several roots contain the image.
      BuildError: a service fault.
    """
    if len(roots) > 1:
        found = find_all(image, roots=roots, allow_outside_root=allow_outside_root)
        if len(found) > 1:
            detail = f"the name is that of several images: {', '.join(map(shorten, found))}"
            raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)
        if found:
            return found[0]
    return as_named(resolve(image, root=roots[-1], allow_outside_root=allow_outside_root))


def as_named(uri: str) -> str:
    """Returns the path of a local file whose name has its accents composed, or apart as macOS writes them.

    A path that cannot be looked at stays as it is; whoever reads it reports the error.

    Raises:
      BuildError: a service fault.
    """
    if uri.isascii() or storage.has_scheme(uri):
        return uri
    forms = [uri, *(unicodedata.normalize(form, uri) for form in ("NFC", "NFD"))]
    with contextlib.suppress(OSError):
        for form in dict.fromkeys(forms):
            if retry_faults(form, functools.partial(storage.exists, form)):
                return form
    return uri


def find_all(image: str, *, roots: Sequence[str], allow_outside_root: bool) -> list[str]:
    """Returns the paths or URIs of an image in all roots that contain it; returns a URL unchecked.

    Raises:
      SampleError: as `resolve`, or a root cannot be searched.
      BuildError: a service fault.
    """
    found: list[str] = []
    for uri in dict.fromkeys(resolve(image, root=root, allow_outside_root=allow_outside_root) for root in roots):
        if storage.is_web(uri):
            return found or [uri]
        uri = as_named(uri)
        if _exists(uri):
            found.append(uri)
    return found


def _exists(uri: str) -> bool:
    try:
        return retry_faults(uri, functools.partial(storage.exists, uri))
    except OSError as error:
        # An image of the same name in another root may be a different image.
        detail = f"{error.strerror or error}: {shorten(uri)}"
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, detail) from error


def with_masks(ref: SampleRef, masks: Mapping[str, storage.FileEntry]) -> SampleRef:
    """Returns the sample with its mask, or the masks of its classes, added; `masks` has their names in `images`."""
    images = {**ref.images, **{name: File(mask.path, mask.version) for name, mask in masks.items()}}
    fingerprint = "+".join([ref.fingerprint, *(mask.fingerprint for mask in masks.values())])
    return dataclasses.replace(ref, images=images, fingerprint=fingerprint)


def with_mask_file(ref: SampleRef, name: str, uri: str) -> SampleRef:
    """Returns the sample with a file of masks, as `name` in its images.

    Raises:
      SampleError: there is no such local file.
    """
    _, fingerprint, version = look(uri)
    images = {**ref.images, name: File(uri, version)}
    return dataclasses.replace(ref, images=images, fingerprint=join_fingerprints([ref.fingerprint, fingerprint]))


def of_path(fingerprint: str, path: str) -> str:
    """Adds the path to the fingerprint of a file that the key does not identify: size and time may coincide."""
    return fingerprint and f"{fingerprint}@{path}"


def join_fingerprints(fingerprints: Collection[str]) -> str:
    """Returns the fingerprint of several files; "" if any fingerprint is unknown."""
    return "" if "" in fingerprints else "+".join(fingerprints)


def look(uri: str) -> tuple[int, str, str]:
    """Returns size, fingerprint and version of a local image; a remote image would cost a request per row."""
    # The directory of an archive is read once.
    if storage.has_scheme(uri) and storage.archive_of(uri) is None:
        # A scheme without its file system fails all rows alike: the request is wrong, not the row.
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
