"""How long a dry run takes to list a dataset of COCO's size, and how much memory.

python benchmarks/annotations.py                      118,287 images, 860,001 boxes with polygons, as train2017
python benchmarks/annotations.py --polygon=0          without polygons

Of each layout, detection and detection_masks, which lists the polygons; the figures go to --results.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import sys
import tempfile

from figures import RESULTS, write_figures
from peak_memory import measure

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")
_CATEGORIES = [number for number in range(1, 91) if number not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]


def make_annotations(path: pathlib.Path, *, images: int, boxes: int, polygon: int) -> None:
    """Writes a file as COCO's: annotations in no order, polygons of so many numbers."""
    rng = random.Random(0)
    url = "http://images.cocodataset.org/train2017"
    with path.open("w") as file:
        file.write('{"info": {"year": 2017}, "licenses": [], "images": [')
        for number in range(images):
            name = f"{number:012d}.jpg"
            entry = {"license": 3, "file_name": name, "coco_url": f"{url}/{name}", "height": 480, "width": 640}
            entry |= {"date_captured": "2013-11-14 16:28:13", "flickr_url": f"{url}/{name}", "id": 5 * number + 9}
            file.write((", " if number else "") + json.dumps(entry))
        file.write('], "annotations": [')
        for number in range(boxes):
            x, y, width, height = (round(rng.uniform(1, 230), 2) for _ in range(4))
            points = [round(rng.uniform(0, 479), 2) for _ in range(polygon)]
            entry = {"segmentation": [points], "area": width * height / 2, "iscrowd": 0}
            entry |= {"image_id": 5 * rng.randrange(images) + 9, "bbox": [x, y, width, height]}
            entry |= {"category_id": rng.choice(_CATEGORIES), "id": number}
            file.write((", " if number else "") + json.dumps(entry))
        categories = [{"supercategory": "thing", "id": one, "name": f"class {one}"} for one in _CATEGORIES]
        file.write(f'], "categories": {json.dumps(categories)}}}')


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=118_287)
    parser.add_argument("--boxes", type=int, default=860_001)
    parser.add_argument("--polygon", type=int, default=40, help="numbers in the polygon of each box")
    parser.add_argument("--layouts", default="detection,detection_masks")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        path = root / "instances_train2017.json"
        make_annotations(path, images=arguments.images, boxes=arguments.boxes, polygon=arguments.polygon)
        for number in range(arguments.images):
            (root / f"{number:012d}.jpg").write_bytes(b"not read by a dry run")
        megabytes = path.stat().st_size / 1e6
        print(f"{megabytes:,.0f} MB")
        command = [str(_COMMAND), "convert", f"--input={path}", f"--output={root / 'out'}", "--dry_run"]
        seconds: dict[str, list[float]] = {layout: [] for layout in arguments.layouts.split(",")}
        peaks: dict[str, int] = {}
        # Looking at the memory slows the command down.
        for samples_memory in [*[False] * arguments.rounds, True]:
            for layout in seconds:
                with open("/dev/null", "wb") as log:
                    found = measure([*command, f"--layout={layout}"], sample_memory=samples_memory, log=log)
                if found.exit_code:
                    raise RuntimeError(f"a dry run with --layout={layout} ended with exit code {found.exit_code}")
                if samples_memory:
                    peaks[layout] = found.peak_bytes
                else:
                    seconds[layout].append(found.seconds)
                memory = f", {found.peak_bytes / 1e6:,.0f} MB at most" if samples_memory else ""
                print(f"{layout:16} {found.seconds:.1f} s{memory}", flush=True)
    write_figures(
        arguments.results / "annotations.json",
        script=__file__,
        rounds=arguments.rounds,
        images=arguments.images,
        boxes=arguments.boxes,
        file_megabytes=round(megabytes),
        seconds=seconds,
        peak_bytes=peaks,
    )


if __name__ == "__main__":
    main()
