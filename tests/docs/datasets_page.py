"""Writes docs/datasets.md: the command for each public dataset of tests/cases/public.yaml, and what it gives.

python -m tests.docs.datasets_page > docs/datasets.md
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from tests.cases.loading import Case, read_area
from tests.cases.outcomes import expected

_MOST_LABELS = 3
_SPLITS = ("train", "validation", "test")
# Dataset -> number of the offer that reads the labels that people train on, if that is not the first one.
_OFFERS = {
    "COVID-19 Radiography": 1, "ISPRS Potsdam": 1, "Oxford Pets": 1, "PlantVillage": 2, "VGGFace2": 1,
    "iNaturalist 2017": 1,
}  # fmt: skip
# What the page says about the labels; if the command reads none, why.
_REMARKS = {
    "CelebA": "two of the 40 columns",
    "NYU Depth": "depth",
    "Oxford Pets": "animal, border, background",
    "UTKFace": "gender; [several features](layouts.md#several-classes) have age and race too",
    "COCO128 of Ultralytics": "Ultralytics' code has coco128.yaml: copy it into DIR",
    "Kvasir-SEG": "the masks are JPEG files, which do not preserve numbers",
    "Stanford Cars": "in a .mat file",
    "VGGFace2": "people; those in test are others",
    "Market-1501": "people; those in test are others",
    "ISPRS Potsdam": "the masks hold colors, whose classes `--mask_colors` reads from a file",
    "BigEarthNet": "in a .json file beside the bands of each image",
    "Human Protein Atlas": "of the four images of each sample",
    "Oxford Pets with its lists": "numbers of the breeds",
    "CelebA, the original tree": "two of the 40 columns, and the identities",
    "FFHQ, thousands of numbers": "the dataset has none",
}
_SETTING = re.compile(r"(\w+)=('(?:[^'\\]|\\.)*'|\[.*?\]|True)(?= \w+=|$)")
# A text such as `2 cat, 1 dog 1,2,5,6` of the records of a split.
_COUNTED = re.compile(r"\d+ (.+?)(?=, \d+(?: |$)|$)")
_HEADER = """# Commands for public datasets

Each row has the command that reads a well-known dataset, with the labels that people train on, from the folder that you
unpacked it into, in its original form or as Kaggle and Roboflow distribute it. `DIR` is that folder. Add `--dry_run` to
see classes, splits, counts and five samples.

Some commands differ from the first one that `convert` prints for the folder alone, because the folder does not say
which of two folder levels or lists you want, or what a number in a file name means. Where the column of labels says
`not read`, the command reads only the images, and the reason follows; [unsupported.md](unsupported.md) shows how to
convert other formats. The same rules read [archives](sources/archives.md) of these trees.

The labels are examples. They come from a copy of each dataset that is reduced to a few files: a test runs each command
on that copy, and `python -m tests.docs.datasets_page` writes this page. So COCO has only the class `cat` here, and a
command with a list of columns or folders has only those of the copy.

| dataset | command: `beam-tfrecords convert --output=out …` | splits | labels |
|---|---|---|---|
"""


_IMAGE = re.compile(r"^\w+: \w+ \d+x\d+")
_BEHIND_NAME = re.compile(r"; | [\d.]+,[\d.]")


def page() -> str:
    """Returns the page."""
    cases = read_area("public")
    # A case of lower-case words shows a rule, and is no dataset; one that changes a dataset has a command for it.
    base, *others = cases.values()
    names = [case.name for case in others if case.of == base.name and re.search("[A-Z_]", case.name)]
    return _HEADER + "".join(sorted((_row(name, cases) for name in names), key=str.lower))


def _row(name: str, cases: Mapping[str, Case]) -> str:
    settings, gives = _choose(name, cases)
    command = shlex.join(_words(settings)).replace("|", "\\|")
    splits = ", ".join(split for split in _SPLITS if split in gives)
    return f"| {name} | `{command}` | {splits} | {_labels(name, settings, gives)} |\n"


def _choose(name: str, cases: Mapping[str, Case]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the settings that read the labels of a dataset, and what they give."""
    case = cases.get(f"{name}, by a command", cases[name])
    settings = {key: value for key, value in case.settings.items() if key not in ("max_failures", "image_encoding")}
    outcome = expected(case)
    if "offers" not in outcome:
        return settings, outcome
    offer, gives = [*outcome["offers"].items()][_OFFERS.get(name, 0)]
    return settings | {found[1]: ast.literal_eval(found[2]) for found in _SETTING.finditer(offer)}, gives


def _words(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        for one in value if isinstance(value, list) else [value]:
            text = re.sub(r"(^|[=,])(?:\./|/data/)", r"\1DIR/", str(one))
            text = re.sub(r"^(?:\.|/data)$", "DIR", text)
            yield f"--{name}" if one is True else f"--{name}={text}"


def _labels(name: str, settings: Mapping[str, Any], gives: Mapping[str, Any]) -> str:
    remark = _REMARKS.get(name)
    if settings.get("layout") == "image":
        return f"not read: {_REMARKS[name]}"
    found = [label for split in _SPLITS for label in _COUNTED.findall(gives.get(split, "")) if label != "no label"]
    kind = _kind(settings, found)
    every = (one for label in found for one in re.split(r" [|+] ", label))
    read = {_BEHIND_NAME.split(one)[0] for one in every if not _IMAGE.search(one)} - {"no object", "no label"}
    names = sorted(gives["classes"].split(", ") if "classes" in gives else read)
    shown = ", ".join([*names[:_MOST_LABELS], *["…"] * (len(names) > _MOST_LABELS)])
    labels = ": ".join(filter(None, (kind, "" if kind in ("texts", "masks") else shown)))
    return f"{labels} ({remark})" if remark else labels


def _kind(settings: Mapping[str, Any], found: list[str]) -> str:
    if settings.get("label_type") == "text":
        return "texts"
    layout = settings.get("layout", "")
    if layout in ("segmentation", "detection_masks"):
        return "masks" if layout == "segmentation" else "objects with masks"
    return "objects" if any(re.search(r" [\d.]+(,[\d.]+){3}", label) for label in found) else ""


if __name__ == "__main__":
    print(page(), end="")
