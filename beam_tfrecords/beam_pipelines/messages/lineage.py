"""The event of a run for catalogues of data lineage: openlineage.io, version 2-0-2 of the specification."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import beam_tfrecords
from beam_tfrecords.beam_pipelines.messages.values import format_time
from beam_tfrecords.transforms.stats import find_metric

_SPEC = "https://openlineage.io/spec"
_PRODUCER = f"urn:beam-tfrecords:{beam_tfrecords.__version__}"


def describe_run(
    manifest: Mapping[str, Any], *, inputs: Sequence[str], output: str, end: float, is_published: bool
) -> dict[str, Any]:
    """Returns the event: COMPLETE with the schema and the size of the dataset, or FAIL.

    Args:
      manifest: manifest of the dataset.
      inputs: absolute paths or URLs of the input.
      output: the folder that was given to `convert`; a version is a state of this dataset.
      end: end of the run, in seconds since the epoch.
      is_published: whether the dataset was published or found unchanged.
    """
    written = _name_dataset(output)
    if is_published:
        features = manifest["spec"]["layout"].items()
        columns = [{"name": name, "type": one["type"], "description": one["field"]} for name, one in features]
        size = {"rowCount": manifest["records"], "size": find_metric(manifest, "bytes")}
        written["facets"] = {"schema": _facet("1-2-0/SchemaDatasetFacet", {"fields": columns})}
        written["outputFacets"] = {"outputStatistics": _facet("1-0-2/OutputStatisticsOutputDatasetFacet", size)}
    return {
        "eventTime": format_time(end),
        "producer": _PRODUCER,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": str(uuid.uuid4())},
        "job": {"namespace": "beam-tfrecords", "name": output},
        "eventType": "COMPLETE" if is_published else "FAIL",
        "inputs": [_name_dataset(path) for path in inputs],
        "outputs": [written],
    }


def _name_dataset(path: str) -> dict[str, Any]:
    """Names a dataset as OpenLineage does: by the store and the bucket, and by the path in the bucket."""
    scheme, separator, rest = path.partition("://")
    host, _, name = rest.partition("/")
    return (
        {"namespace": f"{scheme}://{host}", "name": name or "/"} if separator else {"namespace": "file", "name": path}
    )


def _facet(schema: str, values: Mapping[str, Any]) -> dict[str, Any]:
    url = f"{_SPEC}/facets/{schema}.json#/$defs/{schema.rpartition('/')[2]}"
    return {"_producer": _PRODUCER, "_schemaURL": url, **values}
