"""Programs of a few lines that make images and tables of other forms; a shell runs each as `python3 -c`.

In all of them `p` is the path of the file. They write `p.images`, and `p.csv` for a table with a column `image`.
"""

from __future__ import annotations

_START = 'import os, sys; p = sys.argv[1]; o = p + ".images"; os.makedirs(o, exist_ok=True); '

# {load} gives name -> array, as the source `numpy` pairs them.
SAVE_ARRAYS = (
    "import sys, numpy; p = sys.argv[1]; {load}; "
    'numpy.savez(p + ".npz", **{{n: a[:] for n, a in d.items() if hasattr(a, "shape")}})'
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
