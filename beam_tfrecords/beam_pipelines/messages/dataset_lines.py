"""Formats a dataset and its examples as lines, for people."""

from __future__ import annotations

from beam_tfrecords.beam_pipelines.messages.summary import format_bytes, format_table
from beam_tfrecords.beam_pipelines.messages.values import describe_value
from beam_tfrecords.escaping import escape
from beam_tfrecords.examples.class_values import ClassValue
from beam_tfrecords.examples.layouts import MASK_FIELD, Feature
from beam_tfrecords.examples.parse import parse_example
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.decoding import decode_mask


def describe_schema(dataset: Dataset) -> list[str]:
    """Describes name, splits, classes and features of a dataset."""
    manifest = dataset.manifest
    rows = [["split", "records", "shards", "size"]]
    for split, entry in manifest["splits"].items():
        rows.append([split, f"{entry['records']:,}", f"{entry['shards']:,}", format_bytes(entry["bytes"])])
    lines = [f"{manifest['name']} in {dataset.path}", "", *format_table(rows), ""]
    features = [[escape(feature.name), feature.type, _describe_field(feature)] for feature in dataset.layout.features]
    widths = [max(len(row[column]) for row in features) for column in (0, 1)]
    lines += [f"{name:{widths[0]}}  {kind:{widths[1]}}  {field}" for name, kind, field in features]
    lists = {"classes": dataset.class_names}
    lists |= {f"classes of {escape(name)}": head.class_names for name, head in dataset.layout.heads.items()}
    for title, names in lists.items():
        shown = ", ".join(f"{index} {name}" for index, name in enumerate(names[:20]))
        more = f", and {len(names) - 20} more" if len(names) > 20 else ""
        lines += ["", f"{title}: {shown}{more}"] if names else []
    return lines


def describe_example(data: bytes, dataset: Dataset) -> list[str]:
    """Describes an example, one line per feature."""
    parsed = parse_example(data)
    features = {feature.name: feature for feature in dataset.layout.features}
    width = max((len(escape(name)) for name in parsed), default=0)
    lines = []
    for name, (_, values) in parsed.items():
        shown = [describe_value(value) for value in values[:10]]
        feature = features.get(name)
        kind = ClassValue.INDEX if feature and feature.is_class else feature and feature.class_value
        if feature and kind in (ClassValue.INDEX, ClassValue.ID):
            of = feature.class_names if feature.is_class else dataset.class_names
            found = [kind.find(value, of) for value in values[:10]]
            shown = [
                f"{value:g} ({class_name})" if class_name is not None else str(value)
                for value, class_name in zip(values, found, strict=False)
            ]
        if feature and feature.field == MASK_FIELD:
            shown = [f"{one}{_describe_numbers(value)}" for one, value in zip(shown, values, strict=False)]
        more = f", and {len(values) - 10} more" if len(values) > 10 else ""
        lines.append(f"{escape(name):{width}}  {', '.join(shown)}{more}")
    return lines


def _describe_field(feature: Feature) -> str:
    if feature.length:
        return f"{feature.field} ({feature.length} values)"
    return f"{feature.field} (several values)" if feature.several else feature.field


def _describe_numbers(mask: bytes) -> str:
    from PIL import UnidentifiedImageError

    try:
        numbers = sorted(set(decode_mask(mask).ravel().tolist()))
    except UnidentifiedImageError:
        return ""
    return f", numbers {', '.join(map(str, numbers[:10]))}" + (f", … {numbers[-1]}" if len(numbers) > 10 else "")
