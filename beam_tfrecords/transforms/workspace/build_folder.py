"""The paths below `out/.build/`; no other module spells one out.

```
.build/
  claimed lease fence old_files.json       of the output: see `Workspace`
  version-<UTC time>                       of each version that a build has begun
  listing-<digest>/                        what is listed before the digest of the build is known
    listing/ containers/ staging/          references, and copies of what cannot be read at random
    containers.msgpack                     what `containers/` is to hold
  <digest>/                                of one build: see `BuildFolder`
    run.json job.json version started outcome.json
    listing/ chunks                        references, and the names of the files with them
    blocks/ parts/ failures/ changes/      checkpoints and files of blocks
    workers/                               counts, a file per worker process
    joined/ duplicates/ distinct/          lists and parts that are made of those of blocks
```
"""

from __future__ import annotations

import functools
import glob
import re
from collections.abc import Iterable

from beam_tfrecords import storage
from beam_tfrecords.output.files import LATEST, PINNED, REPORT, VERSION_NAME

_ROOT = ".build"
_JOURNAL, _LEASE, _FENCE, _REPLACED_FILES = "claimed", "lease", "fence", "old_files.json"
_VERSION, _LISTING = "version-", "listing-"
_DIGEST = re.compile(rf"(?:{_LISTING})?[0-9a-f]{{16}}")
# Unfinished files of ours, and what belongs to a lease.
_FILE = re.compile(
    rf"(?:{_JOURNAL}|{_FENCE}|{re.escape(_REPLACED_FILES)}|{_LEASE}|{LATEST}|{PINNED}|{re.escape(REPORT)}|{_VERSION}{VERSION_NAME.pattern})"
    r"(?:\.lock|\.clock-[0-9a-f]+)?(?:\.tmp-[0-9]+-[0-9a-f]{8})?"
)


class Workspace:
    """The folder for temporary files of all builds into one output.

    Attributes:
      path: the folder.
      journal: marks the output as owned by a build, and lists the files that builds have written or started to write.
      lease: the right to write to the output.
      fence: names the run that may publish.
      replaced_files: lists the files that a build replaces.
    """

    def __init__(self, output: str) -> None:
        self.path = storage.join(output, _ROOT)
        self.journal = storage.join(self.path, _JOURNAL)
        self.lease = storage.join(self.path, _LEASE)
        self.fence = storage.join(self.path, _FENCE)
        self.replaced_files = storage.join(self.path, _REPLACED_FILES)

    def build(self, digest: str) -> BuildFolder:
        """The folder of one build."""
        return BuildFolder(storage.join(self.path, digest))

    def listing(self, digest: str) -> BuildFolder:
        """The folder of a listing; builds that read it come and go."""
        return self.build(f"{_LISTING}{digest}")

    def is_all_there_is(self) -> bool:
        """Whether a store has nothing of the output but the lease that was just taken; one request tells."""
        output = storage.dirname(self.path)
        if not storage.has_scheme(output):
            return False
        return [entry.path for entry in storage.list_files(output, limit=2, literal=True)] == [self.lease]

    def version(self, name: str) -> str:
        """Registers a version: its folder is ours, whatever becomes of the build that has begun it."""
        return storage.join(self.path, f"{_VERSION}{name}")

    def list_builds(self) -> list[str]:
        """The folders that builds have left here, sorted."""
        return [folder for folder in self.list_folders() if not self._is_listing(folder)]

    def list_listings(self) -> list[str]:
        """The folders that listings have left here, sorted."""
        return list(filter(self._is_listing, self.list_folders()))

    def list_folders(self) -> list[str]:
        """Those of builds and listings, sorted; what others have put here is not among them."""
        names = storage.list_folders(self.path, missing_ok=True)
        return [storage.join(self.path, name) for name in names if _DIGEST.fullmatch(name)]

    def list_own_files(self) -> list[str]:
        """The files of ours directly here."""
        entries = storage.list_files(storage.join(glob.escape(self.path), "*"), special=True)
        return [entry.path for entry in entries if self.is_own_file(entry.path)]

    def is_own_file(self, path: str) -> bool:
        """Whether a path is that of a file of ours directly here."""
        return storage.dirname(path) == self.path and _FILE.fullmatch(storage.basename(path)) is not None

    def is_in_build(self, path: str) -> bool:
        """Whether a path is in the folder of a build or a listing."""
        start = len(self.path) + 1
        return path[:start] == f"{self.path}/" and _DIGEST.fullmatch(path[start:].partition("/")[0]) is not None

    def list_versions(self) -> list[str]:
        """The names of the versions that are registered."""
        return self.find_versions(self.list_own_files())

    @staticmethod
    def find_versions(files: Iterable[str]) -> list[str]:
        """The names of the versions that are registered by files from `list_own_files`."""
        names = [storage.basename(path).removeprefix(_VERSION) for path in files]
        return sorted(filter(VERSION_NAME.fullmatch, names))

    @staticmethod
    def _is_listing(folder: str) -> bool:
        return storage.basename(folder).startswith(_LISTING)


class BuildFolder:
    """The folder for temporary files of one build, named by all that decides its blocks; or of a listing.

    Attributes:
      path: the folder.
      workspace: that of all builds into the output, which it is in.
      run: the last run: its process and its heartbeat.
      job: the job that was last submitted to a cluster.
      version: the name of the version that the build writes.
      started: makes the folder exist where folders do.
      outcome: says why nothing is published.
      listing: chunk files.
      chunks: the names of the chunk files.
      containers: the containers that are to be listed.
      blocks: checkpoints of blocks.
      unfinished: is there if an attempt at a block did not end.
      staging: copies of samples that cannot be read at random.
      parts: of blocks.
      distinct: parts without dropped duplicates.
      failures: of blocks.
      workers: counts of worker processes.
      stages: their counts of what follows the blocks.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.workspace = storage.dirname(path)
        self._file = file = functools.partial(storage.join, path)
        self.run, self.job = file("run.json"), file("job.json")
        self.version, self.started = file("version"), file("started")
        self.outcome = file("outcome.json")
        self.chunks, self.containers = file("chunks"), file("containers.msgpack")
        self.listing, self.blocks, self.staging = file("listing"), file("blocks"), file("staging")
        self.unfinished = file("unfinished")
        self.parts, self.distinct = file("parts"), file("distinct")
        self.failures, self.workers, self.stages = file("failures"), file("workers"), file("stages")

    def container(self, stem: str) -> str:
        """Checkpoint of a container whose samples are listed."""
        return self._file("containers", f"{stem}.msgpack")

    def block(self, stem: str) -> str:
        """Checkpoint of a finished block."""
        return self._file("blocks", f"{stem}.json")

    def started_block(self, stem: str) -> str:
        """Checkpoint of a block that an attempt has started."""
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

    def copies(self, stem: str, number: int) -> str:
        """Images of a part that occur often, in one range of the hash space."""
        return self._file("duplicates", f"{stem}-{number:06d}.msgpack")
