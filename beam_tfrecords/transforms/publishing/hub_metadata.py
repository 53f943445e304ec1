"""Writes the metadata of a dataset card that the Hugging Face Hub reads, as YAML at the start of `README.md`.

Specification: `datasetcard.md` and `docs/hub/repositories-licenses.md` in huggingface/hub-docs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from beam_tfrecords.escaping import escape
from beam_tfrecords.examples.layouts import CAPTIONS
from beam_tfrecords.output.files import INDEX_FOLDER
from beam_tfrecords.reading.dataset import Dataset

# The Hub's identifiers of licences, without those of models and of families.
_LICENSES = frozenset(
    {
        "apache-2.0", "mit", "afl-3.0", "artistic-2.0", "bsl-1.0", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear",
        "c-uda", "cc", "cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0",
        "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cdla-sharing-1.0", "cdla-permissive-1.0",
        "cdla-permissive-2.0", "wtfpl", "ecl-2.0", "epl-1.0", "epl-2.0", "etalab-2.0", "eupl-1.1", "eupl-1.2",
        "agpl-3.0", "gfdl", "gpl-2.0", "gpl-3.0", "lgpl-2.1", "lgpl-3.0", "isc", "ms-pl", "mpl-2.0", "odc-by", "odbl",
        "openmdw-1.0", "openmdw-1.1", "osl-3.0", "ofl-1.1", "ncsa", "unlicense", "zlib", "pddl", "unknown",
    }
)  # fmt: skip
# Ends of SPDX identifiers that the Hub leaves out, as in ODbL-1.0 and GPL-3.0-only.
_SPDX_END = re.compile(r"-(1\.0|only|or-later)$")

_SIZES = (
    *("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B"),
    *("10B<n<100B", "100B<n<1T", "n>1T"),
)


def hub_metadata(dataset: Dataset) -> str:
    """Returns the YAML. It names the index as the data, because the Hub does not read TFRecord files."""
    manifest = dataset.manifest
    found = {
        "pretty_name": manifest["name"],
        **_license(manifest["spec"]["license"]),
        # The number of digits determines the range; the first one has up to three digits.
        "size_categories": [_SIZES[min(max(len(str(manifest["records"])) - 3, 0), len(_SIZES) - 1)]],
        "task_categories": list(_tasks(dataset)),
        "tags": ["tfrecord"],
        "configs": [
            {
                "config_name": "index",
                "data_files": [
                    {"split": split, "path": f"{INDEX_FOLDER}/{manifest['name']}-{split}-*.parquet"}
                    for split in manifest["splits"]
                ],
            }
        ],
    }
    shown = {name: value for name, value in found.items() if value}
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=1000))


def _license(text: str | None) -> dict[str, str]:
    """Returns the Hub's identifier of the licence; `other` with a name or a link if the Hub has none."""
    if not text:
        return {}
    name = text.lower()
    for identifier in (name, _SPDX_END.sub("", name)):
        if identifier in _LICENSES:
            return {"license": identifier}
    if re.fullmatch(r"https?://\S+", text):
        return {"license": "other", "license_link": escape(text)}
    # The Hub allows only these characters in a name.
    return {"license": "other", "license_name": re.sub(r"[^a-z0-9.]+", "-", name).strip("-") or "other"}


def _tasks(dataset: Dataset) -> Iterator[str]:
    """Yields the Hub's names of the tasks for which examples have labels."""
    layout = dataset.layout
    if not layout.needs_image:
        return
    if layout.needs_objects:
        yield "object-detection"
    if layout.has_mask or layout.needs_object_masks or layout.needs_polygons:
        yield "image-segmentation"
    if layout.needs_keypoints:
        yield "keypoint-detection"
    if layout.needs_label or layout.heads:
        yield "image-classification"
    if any(CAPTIONS in feature.read_columns for feature in layout.features):
        yield "image-to-text"
