"""What users do with the folders of versions: copies, renames, restores, links to an archive, damage."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path


def digest_files(folder: Path) -> dict[str, str]:
    """File, relative to the folder -> digest."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def damage(version: Path, chance: random.Random) -> None:
    """Makes a version unreadable: it vanishes, loses a file or all shards, or a file of it is cut."""
    files = [path for path in sorted(version.rglob("*")) if path.is_file() and path.name != "report.html"]
    kind = chance.choice(("vanish", "shards", "lose", "cut"))
    if kind == "vanish":
        shutil.rmtree(version)
    elif kind == "shards":
        for path in version.glob("*.tfrecord-*"):
            path.unlink()
    elif kind == "lose":
        chance.choice(files).unlink()
    else:
        path = chance.choice([path for path in files if path.stat().st_size])
        os.truncate(path, path.stat().st_size // 2)


class UserFolders:
    """Folders of a user beside versions.

    Args:
      out: the folder of the versions.
      archive: a folder of another disk.
      chance: decides what happens.
    """

    def __init__(self, out: Path, archive: Path, chance: random.Random) -> None:
        self._out, self._archive, self._random = out, archive, chance
        # Name of a folder in `out` -> its files; of renamed versions, also the name before.
        self._own: dict[str, dict[str, str]] = {}
        self._renamed: dict[str, str] = {}
        self._linked: dict[str, dict[str, str]] = {}
        archive.mkdir()

    @property
    def names(self) -> list[str]:
        """The folders that are named like versions, and are none."""
        return sorted(self._own)

    def is_linked(self, name: str) -> bool:
        """Whether a version is a link to the archive."""
        return name in self._linked

    def find_changed(self) -> list[str]:
        """What is not as the user has left it."""
        own = [name for name, files in self._own.items() if digest_files(self._out / name) != files]
        linked = [name for name, files in self._linked.items() if digest_files(self._out / name) != files]
        return own + linked

    def act(self, free: Sequence[str], whole: Sequence[str]) -> Iterator[str]:
        """Does something or nothing; yields what was done.

        Args:
          free: whole versions that neither LATEST nor PINNED names.
          whole: whole versions.
        """
        free = [name for name in free if name not in self._linked]
        if whole and self._random.random() < 0.25:
            name, copy = self._random.choice(whole), self._new_name()
            shutil.copytree(self._out / name, self._out / copy)
            self._own[copy] = digest_files(self._out / copy)
            yield f"copied {name} to {copy}"
        if whole and self._random.random() < 0.2:
            name = self._random.choice(whole)
            shutil.copytree(self._out / name, self._archive / "backups" / name, dirs_exist_ok=True)
            yield f"backed up {name}"
        if free and self._random.random() < 0.15:
            self._rename(name := self._random.choice(free))
            yield f"renamed {name}"
        elif free and self._random.random() < 0.15:
            self._link(name := self._random.choice(free))
            yield f"moved {name} to the archive"
        if self._random.random() < 0.2:
            yield from self._restore()

    def _new_name(self) -> str:
        """A name of a version before or behind all others."""
        return f"{self._random.choice((2001, 2098))}{self._random.randrange(10**4):04d}T000000Z"

    def _rename(self, name: str) -> None:
        other = self._new_name()
        (self._out / name).rename(self._out / other)
        self._own[other] = digest_files(self._out / other)
        self._renamed[other] = name

    def _link(self, name: str) -> None:
        shutil.move(self._out / name, self._archive / name)
        (self._out / name).symlink_to(self._archive / name)
        self._linked[name] = digest_files(self._out / name)

    def _restore(self) -> Iterator[str]:
        """Gives a renamed version its name back, or copies one from the backups."""
        for other, name in list(self._renamed.items()):
            if not (self._out / name).exists():
                (self._out / other).rename(self._out / name)
                del self._own[other], self._renamed[other]
                yield f"renamed {other} to {name}"
                return
        backups = sorted((self._archive / "backups").glob("*"))
        gone = [path for path in backups if not (self._out / path.name).exists()]
        if gone:
            shutil.copytree(path := self._random.choice(gone), self._out / path.name)
            yield f"restored {path.name}"
