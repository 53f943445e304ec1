"""Images that a table or a file of annotations names, and masks: where they are."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.refs import MASK, File, SampleRef
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.path_rule import resolve, shorten


def find_image(image: str, *, roots: Sequence[str], allow_outside_root: bool) -> str:
    """Path or URI of an image, in the first folder that has it.

    Raises:
      SampleError: as `resolve`, or one of the folders before may not be looked into.
      BuildError: a service fault.
    """
    for root in roots[:-1]:
        uri = resolve(image, root=root, allow_outside_root=allow_outside_root)
        # Of a URL, no folder is asked.
        if storage.is_web(uri) or _exists(uri):
            return uri
    return resolve(image, root=roots[-1], allow_outside_root=allow_outside_root)


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
