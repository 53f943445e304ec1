"""Suggests what datasets and records have in place of the attributes of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beam_tfrecords.nearest import find_near

# Attribute of other libraries -> ours, or the tool that does the same; `split` is the largest split.
OF_DATASETS = {
    **dict.fromkeys(("num_rows", "num_examples", "num_samples", "size", "count"), "dataset.num_records"),
    **dict.fromkeys(("column_names", "columns", "schema", "element_spec"), "dataset.features"),
    **dict.fromkeys(("classes", "names", "labels", "class_to_idx"), "dataset.class_names"),
    **dict.fromkeys(("num_classes",), "len(dataset.class_names)"),
    **dict.fromkeys(("value_counts", "counts"), "dataset.class_counts"),
    **dict.fromkeys(("split", "split_names", "info", "keys", "items", "values"), "dataset.splits"),
    **dict.fromkeys(("root", "folder", "data_dir", "data_path"), "dataset.path"),
    **dict.fromkeys(("to_pandas", "iloc", "loc", "head", "tail"), "dataset[{split!r}].to_pandas()"),
    **dict.fromkeys(("describe", "shape"), "dataset[{split!r}].to_pandas()"),
    **dict.fromkeys(("filter", "where", "query"), "dataset[{split!r}].filter(label=...)"),
    **dict.fromkeys(("take", "select", "examples", "with_format"), "dataset[{split!r}][:10]"),
    **dict.fromkeys(("get_split", "data", "get"), "dataset[{split!r}]"),
    **dict.fromkeys(("as_dataset", "load", "to_tf_dataset", "as_numpy"), "load(dataset, {split!r})"),
    **dict.fromkeys(("shuffle", "batch", "map", "prefetch", "repeat"), "load(dataset, {split!r})"),
    **dict.fromkeys(("train_test_split", "random_split"), "dataset['{split}[:80%]']"),
    "validate": "dataset.verify()",
}
OF_RECORDS = {
    **dict.fromkeys(("shuffle", "batch", "map", "repeat", "prefetch"), "load(records), DataLoader or Grain"),
    **dict.fromkeys(("to_tf_dataset", "to_tf", "as_dataset", "load"), "load(records)"),
    **dict.fromkeys(("take", "select", "skip", "head"), "records[:10]"),
    "tail": "records[-10:]",
    "sample": "random.sample(records, 10)",
    **dict.fromkeys(("num_records", "num_rows", "num_examples", "size", "shape"), "len(records)"),
    **dict.fromkeys(("features", "column_names", "columns", "schema", "keys"), "records.layout"),
    **dict.fromkeys(("classes", "names", "num_classes"), "records.class_names"),
    **dict.fromkeys(("iloc", "loc", "to_dict", "describe", "dataframe"), "records.to_pandas()"),
    **dict.fromkeys(("to_list", "tolist", "items", "values"), "list(records)"),
    **dict.fromkeys(("sort", "sort_values"), "records[numpy.argsort(records['label'])]"),
    **dict.fromkeys(("unique",), "set(records['label'])"),
    **dict.fromkeys(("class_counts", "value_counts"), "collections.Counter(records['label'])"),
    **dict.fromkeys(("labels", "targets", "numpy", "to_numpy"), "records['label']"),
    **dict.fromkeys(("concatenate", "concat", "extend", "append"), "dataset['train+validation'] or mix"),
    **dict.fromkeys(("split", "splits", "name"), "dataset.splits"),
    **dict.fromkeys(("train_test_split", "random_split"), "dataset['train[:80%]']"),
    **dict.fromkeys(("where", "query"), "records.filter"),
    **dict.fromkeys(("balance", "weights", "oversample"), "records.balanced()"),
    "resize": "records.resized",
}
# Minimum similarity of a misspelling.
_CUTOFF = 0.7


def explain_attribute(owner: str, name: str, hints: Mapping[str, str], shown: Sequence[str]) -> str:
    """Returns the message for an attribute that does not exist.

    Args:
      owner: "dataset" or "records".
      name: the attribute.
      hints: attribute -> expression that does the same.
      shown: the attributes that exist.
    """
    near = [f"{owner}.{one}" for one in [find_near(name, shown, cutoff=_CUTOFF)] if one not in (None, name)]
    hint = next((f"did you mean {one}? " for one in (hints.get(name), *near) if one), "")
    lacks, they = ("a dataset has", "It has") if owner == "dataset" else ("records have", "They have")
    return f"{lacks} no {name!r}; {hint}{they}: {', '.join(shown)}"
