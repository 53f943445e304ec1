"""Defines all paths below `out/.build/`.

```
.build/
  claimed lease fence                      files of the output, see `Workspace`
  version-<UTC time>                       registration of each version that a build has started
  listing-0000000000000000/                plain bytes of compressed archives
  listing-<digest>/                        a listing made before the digest of the build is known
    listing/ containers/ staging/          references, checkpoints, and copies of samples without random access
    containers.msgpack                     the containers to list
    request.pickle run.json job.json       the request, and its job, if the job makes the listing
  <digest>/                                folder of one build, see `BuildFolder`
    run.json job.json version started outcome.json
    listing/ chunks                        references, and the names of their files
    blocks/ parts/ failures/ changes/      checkpoints and files of blocks
    workers/                               counts, a file per worker process
    joined/ duplicates/ distinct/          lists and parts made from those of blocks
```
"""

from __future__ import annotations

import functools
import glob
import re
from collections.abc import Iterable

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import LATEST, PINNED, REPORT, VERSION_NAME

_ROOT = ".build"
_JOURNAL, _LEASE, _FENCE = "claimed", "lease", "fence"
_VERSION, _LISTING = "version-", "listing-"
_DIGEST = re.compile(rf"(?:{_LISTING})?[0-9a-f]{{16}}")
# Names of our own files, also unfinished ones, and of the files that belong to a lease.
_NAMES = "|".join(map(re.escape, (_JOURNAL, _FENCE, _LEASE, LATEST, PINNED, REPORT)))
_FILE = re.compile(
    rf"(?:{_NAMES}|{_VERSION}{VERSION_NAME.pattern})"
    r"(?:\.lock|\.clock-[0-9a-f]+)?(?:\.tmp-[0-9]+-[0-9a-f]{8})?"
)


class Workspace:
    """The folder for temporary files of all builds into one output.

    Attributes:
      path: the folder.
      journal: marks the output as ours, lists the files that builds have written or started to write, and names those
        that a build is still to replace.
      lease: the right to write to the output.
      fence: names the run that may publish.
      expanded: folder with the plain bytes of compressed archives that the launcher reads.
    """

    def __init__(self, output: str) -> None:
        self.path = storage.join(output, _ROOT)
        self.journal = storage.join(self.path, _JOURNAL)
        self.lease = storage.join(self.path, _LEASE)
        self.fence = storage.join(self.path, _FENCE)
        # Named like the folder of a listing, so that it is cleaned with them.
        self.expanded = storage.join(self.path, f"{_LISTING}{0:016x}")

    def build(self, digest: str) -> BuildFolder:
        """Returns the folder of one build."""
        return BuildFolder(storage.join(self.path, digest))

    def listing(self, digest: str) -> BuildFolder:
        """Returns the folder of a listing, which several builds may read."""
        return self.build(f"{_LISTING}{digest}")

    def is_all_there_is(self) -> bool:
        """Whether the output in a store has no object except the lease that was just taken. Sends one request."""
        output = storage.dirname(self.path)
        if not storage.has_scheme(output):
            return False
        return [entry.path for entry in storage.list_files(output, limit=2, literal=True)] == [self.lease]

    def version(self, name: str) -> str:
        """Returns the file that registers a version. Its folder is ours, even if the build fails."""
        return storage.join(self.path, f"{_VERSION}{name}")

    def list_builds(self) -> list[str]:
        """Returns the sorted folders of builds."""
        return [folder for folder in self.list_folders() if not is_listing(folder)]

    def list_listings(self) -> list[str]:
        """Returns the sorted folders of listings."""
        return list(filter(is_listing, self.list_folders()))

    def list_folders(self) -> list[str]:
        """Returns the sorted folders of builds and listings, without foreign folders."""
        names = storage.list_folders(self.path, missing_ok=True)
        return [storage.join(self.path, name) for name in names if _DIGEST.fullmatch(name)]

    def list_own_files(self) -> list[str]:
        """Returns our files directly in this folder."""
        entries = storage.list_files(storage.join(glob.escape(self.path), "*"), special=True)
        return [entry.path for entry in entries if self.is_own_file(entry.path)]

    def is_own_file(self, path: str) -> bool:
        """Whether a path is one of our files directly in this folder."""
        return storage.dirname(path) == self.path and _FILE.fullmatch(storage.basename(path)) is not None

    def is_in_build(self, path: str) -> bool:
        """Whether a path is in the folder of a build or a listing."""
        start = len(self.path) + 1
        return path[:start] == f"{self.path}/" and _DIGEST.fullmatch(path[start:].partition("/")[0]) is not None

    def list_versions(self) -> list[str]:
        """Returns the names of the registered versions."""
        return self.find_versions(self.list_own_files())

    @staticmethod
    def find_versions(files: Iterable[str]) -> list[str]:
        """Returns the sorted names of the versions that files of `list_own_files` register."""
        names = [storage.basename(path).removeprefix(_VERSION) for path in files]
        return sorted(filter(VERSION_NAME.fullmatch, names))


def is_listing(folder: str) -> bool:
    """Whether a folder for temporary files is the folder of a listing."""
    return storage.basename(folder).startswith(_LISTING)


class BuildFolder:
    """The folder for temporary files of one build or listing, named by a digest of everything that decides its content.

    Attributes:
      path: the folder.
      run: file with the last run and its process.
      job: file with the job that was last submitted to a cluster.
      version: file with the name of the version that the build writes.
      started: empty file that creates the folder on disks.
      outcome: file that says why nothing was published.
      listing: folder of the chunk files.
      chunks: file with the names of the chunk files.
      containers: file with the containers to list.
      request: file with the request of a job that makes its listing.
      blocks: folder of the checkpoints of blocks.
      unfinished: file that exists if an attempt at a block did not end.
      staging: folder of copies of samples without random access.
      parts: folder of the parts of blocks.
      distinct: folder of parts without dropped duplicates.
      failures: folder of the failures of blocks.
      workers: folder of counts of worker processes.
      stages: folder of their counts of the stages before and after the blocks.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = file = functools.partial(storage.join, path)
        self.run, self.job = file("run.json"), file("job.json")
        self.version, self.started = file("version"), file("started")
        self.outcome = file("outcome.json")
        self.chunks, self.containers = file("chunks"), file("containers.msgpack")
        self.request = file("request.pickle")
        self.listing, self.blocks, self.staging = file("listing"), file("blocks"), file("staging")
        self.unfinished = file("unfinished")
        self.parts, self.distinct = file("parts"), file("distinct")
        self.failures, self.workers, self.stages = file("failures"), file("workers"), file("stages")

    def container(self, stem: str) -> str:
        """Returns the checkpoint of a listed container."""
        return self._file("containers", f"{stem}.msgpack")

    def block(self, stem: str) -> str:
        """Returns the checkpoint of a finished block."""
        return self._file("blocks", f"{stem}.json")

    def started_block(self, stem: str) -> str:
        """Returns the file that marks a block as started."""
        return self._file("blocks", f"{stem}.started")

    def block_list(self, kind: str, stem: str) -> str:
        """Returns the file of failures or changes of a block, with a JSON object per line."""
        return self._file(kind, f"{stem}.jsonl")

    def joined_list(self, kind: str, stem: str) -> str:
        """Returns the file of failures or changes of a range of blocks."""
        return self._file("joined", f"{stem}.{kind}.jsonl")

    def duplicates(self, kind: str, number: int) -> str:
        """Returns the file of groups in one range of hashes. All these files, sorted by name, form the list."""
        return self._file("duplicates", f"{kind}-{number:06d}.jsonl")

    def copies(self, stem: str, number: int) -> str:
        """Returns the file of a part's images with very many copies, in one range of the hash space."""
        return self._file("duplicates", f"{stem}-{number:06d}.msgpack")
