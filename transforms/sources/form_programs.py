"""Programs of a few lines that make images and tables of other forms; a shell runs each as `python3 -c`.

In all of them `p` is the path of the file. They write `p.images`, and `p.csv` for a table with a column `image`.
"""

from __future__ import annotations

_START = 'import os, sys; p = sys.argv[1]; o = p + ".images"; os.makedirs(o, exist_ok=True); '

# {load} gives name -> array. Arrays belong together if they have one length and the most similar names; of several,
# the name says the split.
SAVE_ARRAYS = _START + (
    "import numpy; from PIL import Image; {load}; "
    "z = [(x, max((y for y in d if d[y].size == len(d[x])), key=lambda y: sum(map(str.__eq__, x, y)))) "
    "for x in d if d[x].ndim > 2]; "
    'g = lambda x: next((s for s in ("train", "val", "test") if s in x), ""); '
    '[os.makedirs(f := f"{{o}}/{{g(x)}}/{{b}}", exist_ok=True) or Image.fromarray(a).save(f"{{f}}/{{i}}.png") '
    "for x, y in z for i, (a, b) in enumerate(zip(d[x], d[y][:].ravel()))]"
)
NPZ = "d = dict(numpy.load(p))"
ONE_ARRAY = 'x = numpy.load(p); d = {"x": x, "y": numpy.zeros(len(x), int)}'
IDX = (
    'import gzip; r = lambda f: (gzip.open if f.endswith("gz") else open)(f, "rb").read(); u = r(p); '
    'd = {"x": numpy.frombuffer(u, "uint8", offset=16).reshape(numpy.frombuffer(u, ">i4", 3, 4)), '
    '"y": numpy.frombuffer(r(sys.argv[2]), "uint8", offset=8)}'
)
CIFAR = (
    'import pickle; d = pickle.load(open(p, "rb"), encoding="latin1"); '
    'd = {"x": d["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), "y": numpy.array(d["labels"])}'
)
TORCH = 'import torch; d = dict(zip("xy", map(numpy.asarray, torch.load(p)[:2])))'
HDF5 = "import h5py; d = h5py.File(p)"

_WRITE_TABLE = _START + (
    'import csv; c = sys.argv[2]; w = csv.writer(open(p + ".csv", "w", newline="")); {load}; '
    'k = [n for n in names if n not in pixels]; w.writerow(["image", *k]); '
    "[{save} and w.writerow([os.path.relpath(f, os.path.dirname(p)), *(r[n] for n in k)]) for i, r in enumerate(rows)]"
)
# The second argument is a pattern of the columns with the pixels, the third their shape.
PIXELS = _WRITE_TABLE.format(
    load=(
        "import re, numpy; from PIL import Image; csv.field_size_limit(1 << 30); rows = csv.DictReader(open(p)); "
        "names = rows.fieldnames; pixels = [n for n in names if re.fullmatch(c, n)]; "
        's = [int(n) for n in sys.argv[3].split(",")]'
    ),
    save=(
        'Image.fromarray(numpy.array(" ".join(r[n] for n in pixels).split(), "uint8").reshape(s))'
        '.save(f := f"{o}/{i}.png") is None'
    ),
)
LMDB = _START + (
    'import lmdb; [open(f"{o}/{i}", "wb").write(v) '
    "for i, (k, v) in enumerate(lmdb.open(p, readonly=True, subdir=False).begin().cursor())]"
)
LINES = 'import json, sys; print(*map(json.dumps, json.load(open(sys.argv[1]))), sep="\\n")'
ITEMS = (
    'import json, sys; [print(json.dumps({"image": k, "label": v})) for k, v in json.load(open(sys.argv[1])).items()]'
)
FRAME = 'import sys, pandas; p = sys.argv[1]; pandas.read_{}(p).to_csv(p + ".csv", index=False)'
# Arguments: table, column, delimiter, method of str, and pairs of a pattern and what takes its place.
REWRITE = (
    "import csv, functools, re, sys; p, c, d, m, *s = sys.argv[1:]; "
    "f = lambda x: getattr(functools.reduce(lambda x, i: re.sub(s[i], s[i + 1], x), range(0, len(s), 2), x), m)(); "
    'r = csv.DictReader(open(p, newline=""), delimiter=d); '
    'w = csv.DictWriter(open(p + ".csv", "w", newline=""), r.fieldnames, delimiter=d); w.writeheader(); '
    "w.writerows({**row, c: f(row[c])} for row in r)"
)
