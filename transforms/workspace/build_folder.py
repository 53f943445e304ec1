"""The paths below `out/.build/`; no other module spells one out.

```
.build/
  claimed lock lease old_files.json        of the output: see `Workspace`
  <digest>/                                of one build: see `BuildFolder`
    run.json job.json version started listed outcome.json
    listing/ containers/ spool/            references, and copies of what cannot be read at random
    blocks/ parts/ failures/ changes/      markers and files of blocks
    workers/                               counts, a file per worker process
    joined/ duplicates/ distinct/          lists and parts that are made of those of blocks
```
"""

from __future__ import annotations

import dataclasses

from beam_tfrecords import storage

_ROOT = ".build"


@dataclasses.dataclass(frozen=True)
class Workspace:
    """The folder for temporary files of all builds into one output.

    Attributes:
      output: the folder that was given to `convert`.
    """

    output: str

    @property
    def path(self) -> str:
        """The folder."""
        return storage.join(self.output, _ROOT)

    @property
    def claim(self) -> str:
        """Marks the folder as owned by a build: files with names like those of a dataset are its own."""
        return storage.join(self.path, "claimed")

    @property
    def lock(self) -> str:
        """Held while a build writes to the output."""
        return storage.join(self.path, "lock")

    @property
    def lease(self) -> str:
        """The right to write to an output in an object store."""
        return storage.join(self.path, "lease")

    @property
    def old_files(self) -> str:
        """Lists the files that a build replaces."""
        return storage.join(self.path, "old_files.json")

    def build(self, digest: str) -> BuildFolder:
        """The folder of one build."""
        return BuildFolder(storage.join(self.path, digest))

    def list_builds(self) -> list[str]:
        """The folders that builds have left here, sorted."""
        names = storage.list_folders(self.path) if storage.is_folder(self.path) else []
        return [storage.join(self.path, name) for name in names]


@dataclasses.dataclass(frozen=True)
class BuildFolder:
    """The folder for temporary files of one build, named by all that decides its blocks.

    Attributes:
      path: the folder.
    """

    path: str

    @property
    def workspace(self) -> str:
        """The folder that all builds into the output have theirs in."""
        return storage.dirname(self.path)

    @property
    def run(self) -> str:
        """The last launch: its process and its heartbeat."""
        return self._file("run.json")

    @property
    def job(self) -> str:
        """The job that was last submitted to a cluster."""
        return self._file("job.json")

    @property
    def version(self) -> str:
        """The name of the version that the build writes."""
        return self._file("version")

    @property
    def started(self) -> str:
        """Makes the folder exist where folders do."""
        return self._file("started")

    @property
    def outcome(self) -> str:
        """Says why nothing is published."""
        return self._file("outcome.json")

    @property
    def listing(self) -> str:
        """Folder of the chunk files."""
        return self._file("listing")

    @property
    def listed(self) -> str:
        """Fingerprint of the listing of containers that the blocks are made of."""
        return self._file("listed")

    @property
    def blocks(self) -> str:
        """Folder of the markers of blocks."""
        return self._file("blocks")

    @property
    def spool(self) -> str:
        """Folder of copies of samples that cannot be read at random."""
        return self._file("spool")

    @property
    def parts(self) -> str:
        """Folder of the parts."""
        return self._file("parts")

    @property
    def distinct(self) -> str:
        """Folder of the parts without dropped duplicates."""
        return self._file("distinct")

    @property
    def failures(self) -> str:
        """Folder of the failures of blocks."""
        return self._file("failures")

    @property
    def workers(self) -> str:
        """Folder of the counts of worker processes."""
        return self._file("workers")

    def container(self, stem: str) -> str:
        """Marker of a container whose samples are listed."""
        return self._file("containers", f"{stem}.msgpack")

    def block(self, stem: str) -> str:
        """Marker of a finished block."""
        return self._file("blocks", f"{stem}.json")

    def started_block(self, stem: str) -> str:
        """Marker of a block that an attempt has started."""
        return self._file("blocks", f"{stem}.started")

    def block_list(self, kind: str, stem: str) -> str:
        """The failures or changes of a block, a JSON object per line."""
        return self._file(kind, f"{stem}.jsonl")

    def joined_list(self, kind: str, stem: str) -> str:
        """The failures or changes of a range of blocks."""
        return self._file("joined", f"{stem}.{kind}.jsonl")

    def duplicates(self, kind: str, number: int) -> str:
        """Groups of identical images in one range of the hash space; all files sorted by name are the list."""
        return self._file("duplicates", f"{kind}-{number:06d}.jsonl")

    def _file(self, *names: str) -> str:
        return storage.join(self.path, *names)
