"""Archives in memory."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping


def tar_of(members: Mapping[str, bytes], *, compression: str = "") -> bytes:
    """Returns a tar archive; `compression` is that of `tarfile.open`, such as `gz`."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=f"w:{compression}") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()
